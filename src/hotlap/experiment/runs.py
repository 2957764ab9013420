"""What makes runs: heats one after the other here, on a cluster as many at a time as it lends nodes."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from hotlap.record import Plan, Run, Status

Heat = Sequence[Plan]
"""Plans of one node. Those that take turns are alive at the same time; without turns one runs after the other."""

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
    """Runs whole heats, each on a node of its own: what is compared shares one."""

    @property
    def nodes(self) -> int:
        """Heats that may run at the same time."""
        ...

    def many(self, heats: Sequence[Heat], *, limit_s: float) -> list[list[Run]]:
        """One Run per plan of each heat, which is asked to end after `limit_s`."""
        ...


def run_heats(runs: Runs, heats: Sequence[Heat], *, limit_s: float) -> list[list[Run]]:
    """As `Nodes.many`, wherever `runs` are made."""
    if isinstance(runs, Nodes):
        return runs.many(heats, limit_s=limit_s)
    return [_here(runs, plans, limit_s) for plans in heats]


def _here(runs: Runs, plans: Heat, limit_s: float) -> list[Run]:
    if any(plan.turn is not None for plan in plans):
        return runs(plans, limit_s=limit_s)
    return [runs([plan], limit_s=limit_s / len(plans))[0] for plan in plans]


class Exclusive:
    """Starts one process after the other once two of a heat were in each other's way: a port, a locked file or a device
    that each wants for itself.

    `several`: is each of them a job of several processes, some of which may have met those of the other job?
    """

    def __init__(self, runs: Runs, warn: Callable[[str], None], *, several: Callable[[], bool]) -> None:
        self._runs = runs
        self._warn = warn
        self._several = several
        self._alone = False

    @property
    def nodes(self) -> int:
        """As `Nodes`."""
        return self._runs.nodes if isinstance(self._runs, Nodes) else 1

    def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        """As `Runs`."""
        return self.many([plans], limit_s=limit_s)[0]

    def many(self, heats: Sequence[Heat], *, limit_s: float) -> list[list[Run]]:
        """As `Nodes`."""
        if self._alone:
            heats = [[replace(plan, turn=None) for plan in plans] for plans in heats]
        found = run_heats(self._runs, heats, limit_s=limit_s)
        reason = None if self._alone else next(filter(None, map(self._in_the_way, found)), None)
        if reason is None:
            return found
        self._alone = True
        self._warn(
            f"Two of these trainings cannot run at the same time ({reason}), so they are compared one after the "
            "other, which takes longer to tell small gains from noise."
        )
        return self.many(heats, limit_s=limit_s)

    def _in_the_way(self, found: Sequence[Run]) -> str | None:
        """What one of them said, if it failed for want of what another one had."""
        crashed = [run for run in found if run.status is Status.CRASHED]
        if len(found) == 1 or (len(crashed) == len(found) and not self._several()):
            return None  # nobody had it: another program has
        said = (_TAKEN.search(f"{run.error}\n{run.output}") for run in crashed)
        return next((match.group() for match in said if match is not None), None)
