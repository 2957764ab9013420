"""Heats -> runs: here one after the other, on a cluster as many at a time as it lends nodes."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from hotlap.experiment.design import Runs
from hotlap.record import Plan, Run

Heat = Sequence[Plan]
"""Plans of one node. Those that take turns are alive at the same time; without turns one runs after the other."""


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


def nodes_of(runs: Runs) -> int:
    """Heats that may run at the same time."""
    return runs.nodes if isinstance(runs, Nodes) else 1


def run_heats(runs: Runs, heats: Sequence[Heat], *, limit_s: float) -> list[list[Run]]:
    """As `Nodes.many`, wherever `runs` are made."""
    if isinstance(runs, Nodes):
        return runs.many(heats, limit_s=limit_s)
    return [_here(runs, plans, limit_s) for plans in heats]


def _here(runs: Runs, plans: Heat, limit_s: float) -> list[Run]:
    if any(plan.turn is not None for plan in plans):
        return runs(plans, limit_s=limit_s)
    return [runs([plan], limit_s=limit_s / len(plans))[0] for plan in plans]
