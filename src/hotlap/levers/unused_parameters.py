"""unused-parameters: DistributedDataParallel looks for parameters without a gradient only where there are some."""

from collections.abc import Mapping, Sequence

from hotlap.levers.data_parallel import EXCHANGE, WrapperArgument
from hotlap.levers.lever import Numerics
from hotlap.record import Phase, Run, Scalar


class UnusedParameters(WrapperArgument):
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

    replaces = True
    no_line = "The search is not turned on in the script's own source."
    numerics = Numerics.EXACT
    shortens = (Phase.FORWARD, *EXCHANGE)  # the walk is in the forward pass

    def why_not(self, run: Run, models: Sequence[Mapping[str, Scalar]]) -> str | None:
        """Is the search on?"""
        found = any(one.get("finds_unused") for one in models)
        return None if found else "DistributedDataParallel does not look for unused parameters here."

    def argument(self, run: Run) -> tuple[str, str]:
        """The one that is given."""
        return "find_unused_parameters", "False"
