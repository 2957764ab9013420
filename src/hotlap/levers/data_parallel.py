"""Where a script wraps its model in DistributedDataParallel, how, and where it calls what comes of that."""

import ast
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from hotlap.levers.frameworks import in_their_words
from hotlap.levers.lever import Lever
from hotlap.record import CallSite, Machine, Phase, Run, Scalar
from hotlap.source import AddArgument, Edit, Script, is_name, scripts

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

    across_ranks: ClassVar[bool] = True
    no_line: ClassVar[str] = "The script makes no DistributedDataParallel, or chooses this itself."
    replaces: ClassVar[bool] = False

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Is there such a model?"""
        return why_none(run) or self.why_not(run, [site.detail for site in forward_sites(run)])

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


@dataclass(frozen=True, slots=True)
class Pass:
    """A forward pass of such a model, written out in the script."""

    run: Run
    script: Script
    call: ast.Call
    site: CallSite


def why_none(run: Run) -> str | None:
    """Why there is no such model; None where there is one."""
    if run.world_size == 1:
        return "One process trains here."
    return None if forward_sites(run) else "No model was seen that DistributedDataParallel wraps."


def passes(run: Run) -> list[Pass]:
    """Calls of such models by a name (`model(x)`, `self.model(x)`).

    Raises:
        UserError: a file is missing or changed since.
    """
    known = [(script, site) for site in forward_sites(run) for script in scripts(run)]
    found = [(script, script.at(site), site) for script, site in known]
    return [Pass(run, script, call, site) for script, call, site in found if call is not None and is_name(call.func)]


def forward_sites(run: Run) -> list[CallSite]:
    """Where such models are called, with what they were wrapped with (`hotlap.probe.facts.wrapped_with`)."""
    return [site for site in run.call_sites if site.calls == "forward" and site.detail.get("data_parallel")]


def megabytes(run: Run) -> float:
    """Of the gradients of the largest of them."""
    known = (site.detail.get("gradient_mb") for site in forward_sites(run))
    return max((size for size in known if isinstance(size, int | float)), default=0.0)
