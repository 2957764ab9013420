"""Where a script wraps its model in DistributedDataParallel, how, and where it calls what comes of that."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from hotlap.levers.frameworks import in_their_words
from hotlap.levers.lever import Lever
from hotlap.levers.models import forward_sites
from hotlap.record import Machine, Phase, Run, Scalar
from hotlap.source import AddArgument, Edit, scripts

WRAPPERS = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
)
"""Full names of what wraps a model."""


EXCHANGE = (Phase.BACKWARD, Phase.COMMUNICATION)
"""Backward passes, which send gradients while they go on, and what is waited for behind."""


class WrapperArgument(Lever):
    """An argument of DistributedDataParallel, where the script wraps its model or in a framework's own words.

    Where the script chose it itself it stays, unless the lever `replaces` the choice, and then only there.
    """

    across_ranks = True
    no_line = "The script makes no DistributedDataParallel, or chooses this itself."
    replaces = False

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Is there such a model?"""
        return why_none(run) or self.why_not(run, [site.detail for site in forward_sites(run, "data_parallel")])

    @abstractmethod
    def why_not(self, run: Run, models: Sequence[Mapping[str, Scalar]]) -> str | None:
        """Why it brings nothing to these models, of which is known how they were wrapped
        (`hotlap.probe.facts.wrapped_with`)."""

    @abstractmethod
    def argument(self, run: Run) -> tuple[str, str]:
        """(keyword, value); the keyword is empty where this torch has none."""

    def edits(self, run: Run) -> Sequence[Edit]:
        """One argument more, or another value of it."""
        keyword, value = self.argument(run)
        if not keyword:
            return ()
        calls = [(script, call) for script in scripts(run) for call in script.calls(*WRAPPERS)]
        if not calls:
            return in_their_words(run, self.name, value=value) or ()
        return tuple(
            AddArgument(site=script.site(call, calls=WRAPPERS[0]), keyword=keyword, value=value)
            for script, call in calls
            if any(word.arg == keyword for word in call.keywords) == self.replaces
        )


def why_none(run: Run) -> str | None:
    """Why there is no such model; None where there is one."""
    if run.world_size == 1:
        return "One process trains here."
    return None if forward_sites(run, "data_parallel") else "No model was seen that DistributedDataParallel wraps."


def megabytes(run: Run) -> float:
    """Of the gradients of the largest of them."""
    known = (site.detail.get("gradient_mb") for site in forward_sites(run, "data_parallel"))
    return max((size for size in known if isinstance(size, int | float)), default=0.0)
