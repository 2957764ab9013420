"""unused-parameters: DistributedDataParallel looks for parameters without a gradient only where there are some."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from hotlap.levers.data_parallel import argument, exchange_s, forward_sites, why_none
from hotlap.levers.lever import Lever, Numerics, Scope, cannot_write
from hotlap.record import Ceiling, Machine, Phase, Run
from hotlap.source import Edit


@final
@dataclass(frozen=True, slots=True)
class UnusedParameters(Lever):
    """Turns off the search for parameters that a step did not use: `find_unused_parameters=False`.

    What: the argument of `DistributedDataParallel`, where the script (or Hugging Face's Trainer, whose default it is)
    has it on.
    Why: with it each forward pass ends in a walk over the whole graph, and each backward pass in an exchange of which
    parameters were used where (PyTorch's documentation of `DistributedDataParallel`, "find_unused_parameters"). A
    perceptron of twelve small layers on two ranks took 1.1 times as long with it.
    When it hurts: where a step does leave out a parameter, in any rank, DistributedDataParallel ends with an error in
    the next one, so the trial fails and the lever is not taken. A part that is first left out after the trials (one
    that is frozen later on, a branch taken rarely) ends the training there in the same way.
    """

    name: ClassVar[str] = "unused-parameters"
    scope: ClassVar[Scope] = Scope.PROCESS
    numerics: ClassVar[Numerics] = Numerics.EXACT
    across_ranks: ClassVar[bool] = True

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Is there such a model, is the search on, and can it be turned off?"""
        reason = why_none(run)
        if reason is None and not any(site.detail.get("finds_unused") for site in forward_sites(run)):
            reason = "DistributedDataParallel does not look for unused parameters here."
        return reason or cannot_write(self, run, "The search is not turned on in the script's own source.")

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """The walk is a part of the forward pass, the exchange of the backward pass."""
        return (run.mean_phase_s(Phase.FORWARD) or 0.0) + exchange_s(run)

    def edits(self, run: Run) -> Sequence[Edit]:
        """The argument, where it is given."""
        return argument(run, self.name, "find_unused_parameters", "False", replaces=True)
