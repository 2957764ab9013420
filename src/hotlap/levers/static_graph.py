"""static-graph: DistributedDataParallel looks for unused parameters in the first step only."""

from collections.abc import Mapping, Sequence

from hotlap.levers.data_parallel import EXCHANGE, WrapperArgument
from hotlap.levers.lever import Numerics
from hotlap.record import Phase, Run, Scalar
from hotlap.source import scripts

# What sends gradients in some passes only.
_ACCUMULATES = frozenset({"no_sync", "require_backward_grad_sync", "accumulate", "gradient_accumulation_steps"})


class StaticGraph(WrapperArgument):
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

    numerics = Numerics.EXACT
    shortens = (Phase.FORWARD, *EXCHANGE)  # the walk is in the forward pass

    def why_not(self, run: Run, models: Sequence[Mapping[str, Scalar]]) -> str | None:
        """Does it look for unused parameters, and can it be told not to?"""
        if not any(one.get("finds_unused") and not one.get("static_graph") for one in models):
            return "DistributedDataParallel does not look for unused parameters in each step here."
        if any(script.spelled(*_ACCUMULATES) for script in scripts(run)):
            return "The script exchanges gradients in some passes only: its graph is not static."
        return None

    def argument(self, run: Run) -> tuple[str, str]:
        """As torch has it."""
        return "static_graph", "True"
