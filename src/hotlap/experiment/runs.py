"""What makes runs: trial groups one after the other here, on a cluster as many at a time as it lends nodes."""

import re
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from hotlap.record import Plan, Run, Status

# What Python, libuv (torch.distributed), gRPC, SQLite, file locks and CUDA say when another process was first.
_TAKEN = re.compile(
    r"address already in use|EADDRINUSE|address is already in use|database is locked|resource temporarily unavailable"
    r"|device\(s\) is/are busy or unavailable|CUDA out of memory"
    r"|already locked|acquire (the )?lock|lock (file )?(is )?held|another (instance|process)",
    re.IGNORECASE,
)


class Runs(Protocol):
    """Runs plans, at the same time when there are several; `hotlap.launch.Launcher` is the real one."""

    def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        """One Run per plan; each is asked to end after `limit_s`."""
        ...


@runtime_checkable
class Nodes(Protocol):
    """Runs whole trial groups, each on a node of its own: what is compared shares one."""

    @property
    def nodes(self) -> int:
        """Trial groups that may run at the same time."""
        ...

    def many(self, trial_groups: Sequence[Sequence[Plan]], *, limits_s: Sequence[float]) -> list[list[Run]]:
        """One Run per plan of each trial group, which is asked to end after its `limits_s`."""
        ...


def run_trial_groups(
    runs: Runs, trial_groups: Sequence[Sequence[Plan]], *, limits_s: Sequence[float]
) -> list[list[Run]]:
    """One Run per plan of each trial group, wherever they are made. Plans that take turns are alive at the same time;
    without turns one runs after the other."""
    if isinstance(runs, Nodes):
        return runs.many(trial_groups, limits_s=limits_s)
    return [_here(runs, plans, limit_s) for plans, limit_s in zip(trial_groups, limits_s, strict=True)]


def _here(runs: Runs, plans: Sequence[Plan], limit_s: float) -> list[Run]:
    if any(plan.turn is not None for plan in plans):
        return runs(plans, limit_s=limit_s)
    return [runs([plan], limit_s=limit_s / len(plans))[0] for plan in plans]


def in_the_way(found: Sequence[Run], *, several: bool) -> str | None:
    """What a process of a trial group said, if it failed for want of what another one had; None where none did.

    `several`: each of them is a job of several processes, some of which may have met those of the other job.
    """
    crashed = [run for run in found if run.status is Status.CRASHED]
    if len(found) == 1 or (len(crashed) == len(found) and not several):
        return None  # nobody had it: another program has
    said = (_TAKEN.search(f"{run.error}\n{run.output}") for run in crashed)
    return next((match.group() for match in said if match is not None), None)
