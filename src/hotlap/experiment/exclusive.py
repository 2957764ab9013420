"""Trainings that cannot be alive at the same time: a port, a locked file or a device that each wants for itself."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from hotlap.experiment.design import Runs
from hotlap.experiment.nodes import Heat, nodes_of, run_heats
from hotlap.record import Plan, Run, Status

# What Python, libuv (torch.distributed), gRPC, SQLite, file locks and CUDA say when another process was first.
_TAKEN = re.compile(
    r"address already in use|EADDRINUSE|address is already in use|database is locked|resource temporarily unavailable"
    r"|device\(s\) is/are busy or unavailable|CUDA out of memory"
    r"|already locked|acquire (the )?lock|lock (file )?(is )?held|another (instance|process)",
    re.IGNORECASE,
)


class Exclusive:
    """A launcher that starts one process after the other once two of a heat were in each other's way.

    `several`: is each of them a job of several processes, some of which may have met those of the other job?
    """

    def __init__(self, runs: Runs, warn: Callable[[str], None], *, several: Callable[[], bool]) -> None:
        self._runs = runs
        self._warn = warn
        self._several = several
        self._alone = False

    @property
    def nodes(self) -> int:
        """As `hotlap.experiment.nodes.Nodes`."""
        return nodes_of(self._runs)

    def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        """As `hotlap.experiment.Runs`."""
        return self.many([plans], limit_s=limit_s)[0]

    def many(self, heats: Sequence[Heat], *, limit_s: float) -> list[list[Run]]:
        """As `hotlap.experiment.nodes.Nodes`."""
        if self._alone:
            return run_heats(self._runs, [_one_by_one(plans) for plans in heats], limit_s=limit_s)
        found = run_heats(self._runs, heats, limit_s=limit_s)
        reason = next(
            filter(None, (_in_the_way(runs, several=self._several()) for runs in found if len(runs) > 1)), None
        )
        if reason is None:
            return found
        self._alone = True
        self._warn(
            f"Two of these trainings cannot run at the same time ({reason}), so they are compared one after the "
            "other, which takes longer to tell small gains from noise."
        )
        return self.many(heats, limit_s=limit_s)


def _one_by_one(plans: Heat) -> list[Plan]:
    return [replace(plan, turn=None) for plan in plans]


def _in_the_way(found: Sequence[Run], *, several: bool) -> str | None:
    """What one of them said, if it failed for want of what another one had."""
    if not several and all(run.status is Status.CRASHED for run in found):
        return None  # nobody had it: another program has
    said = [_TAKEN.search(f"{run.error}\n{run.output}") for run in found if run.status is Status.CRASHED]
    return next((match.group() for match in said if match is not None), None)
