"""Where a script wraps its model in DistributedDataParallel, how, and where it calls what comes of that."""

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from hotlap.levers.frameworks import in_their_words
from hotlap.record import CallSite, Phase, Run
from hotlap.source import AddArgument, Edit, Script, scripts

_WRAPPER = "torch.nn.parallel.DistributedDataParallel"
_WRAPPERS = (_WRAPPER, "torch.nn.parallel.distributed.DistributedDataParallel")


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
    return [Pass(run, script, call, site) for script, call, site in found if call is not None and _is_name(call.func)]


def forward_sites(run: Run) -> list[CallSite]:
    """Where such models are called, with what they were wrapped with (`hotlap.probe.facts.wrapped_with`)."""
    return [site for site in run.call_sites if site.calls == "forward" and site.detail.get("data_parallel")]


def megabytes(run: Run) -> float:
    """Of the gradients of the largest of them."""
    known = (site.detail.get("gradient_mb") for site in forward_sites(run))
    return max((size for size in known if isinstance(size, int | float)), default=0.0)


def argument(run: Run, lever: str, keyword: str, value: str, *, replaces: bool = False) -> Sequence[Edit]:
    """`keyword=value` where models are wrapped, or in a framework's own words. Where the script chose it itself it
    stays, unless the lever `replaces` the choice, and then only there.

    Raises:
        UserError: a file is missing or changed since; a framework's argument is chosen by the script.
    """
    chosen = [(script, call, _chooses(call, keyword)) for script in scripts(run) for call in script.calls(*_WRAPPERS)]
    if not chosen:
        return in_their_words(run, lever, value=value) or ()
    return tuple(
        AddArgument(site=script.site(call, calls=_WRAPPER), keyword=keyword, value=value)
        for script, call, choice in chosen
        if choice == replaces
    )


def names_any(script: Script, words: Collection[str]) -> bool:
    """One of these words is an attribute, a name or a keyword somewhere in the script."""
    return any(word in words for node in ast.walk(script.tree) for word in named(node))


def named(node: ast.AST) -> Iterator[str]:
    """Of an attribute, a name or a keyword."""
    if isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.keyword) and node.arg is not None:
        yield node.arg


def exchange_s(run: Run) -> float:
    """Seconds a step in backward passes, which send gradients while they go on, and in what is waited for behind."""
    return sum(run.mean_phase_s(phase) or 0.0 for phase in (Phase.BACKWARD, Phase.COMMUNICATION))


def _chooses(call: ast.Call, keyword: str) -> bool:
    return any(word.arg == keyword for word in call.keywords)


def _is_name(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)
