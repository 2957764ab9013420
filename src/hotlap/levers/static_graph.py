"""static-graph: DistributedDataParallel looks for unused parameters in the first step only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from hotlap.errors import UserError
from hotlap.levers.data_parallel import argument, exchange_s, forward_sites, names_any, why_none
from hotlap.levers.lever import Lever, Numerics, Scope, cannot_write
from hotlap.record import Ceiling, Machine, Phase, Run
from hotlap.source import Edit, scripts

# What sends gradients in some passes only.
_ACCUMULATES = frozenset({"no_sync", "require_backward_grad_sync", "accumulate", "gradient_accumulation_steps"})


@final
@dataclass(frozen=True, slots=True)
class StaticGraph(Lever):
    """Looks for unused parameters once, and takes them to be the same in each step: `static_graph=True`.

    What: the argument of `DistributedDataParallel`, where `find_unused_parameters` is on: the alternative to turning
    that off, for a model that has parameters which no step uses.
    Why: the search walks the whole graph in each step (PyTorch's documentation of `DistributedDataParallel`,
    "static_graph").
    When it hurts: where another step uses other parameters. Most such changes end in an error of
    DistributedDataParallel's; gradients that are missing in one step only need not. The gate compares parameters on all
    ranks over its steps, and what changes later it does not see. `no_sync` and this do not go together in a first step,
    so the two are alternatives, and it is refused where a script accumulates gradients by itself.
    """

    name: ClassVar[str] = "static-graph"
    scope: ClassVar[Scope] = Scope.PROCESS
    numerics: ClassVar[Numerics] = Numerics.EXACT
    across_ranks: ClassVar[bool] = True

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Is there such a model, does it look for unused parameters, and can it be told not to?"""
        reason = why_none(run)
        details = [site.detail for site in forward_sites(run)]
        if reason is None and not any(one.get("finds_unused") and not one.get("static_graph") for one in details):
            reason = "DistributedDataParallel does not look for unused parameters in each step here."
        return (
            reason
            or _accumulates(run)
            or cannot_write(self, run, "The script makes no DistributedDataParallel, or chooses this itself.")
        )

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """The walk is a part of the forward pass, what hangs on it of the backward pass."""
        return (run.mean_phase_s(Phase.FORWARD) or 0.0) + exchange_s(run)

    def edits(self, run: Run) -> Sequence[Edit]:
        """One argument more."""
        return argument(run, self.name, "static_graph", "True")


def _accumulates(run: Run) -> str | None:
    try:
        found = any(names_any(script, _ACCUMULATES) for script in scripts(run))
    except UserError as error:
        return str(error)
    return "The script exchanges gradients in some passes only: its graph is not static." if found else None
