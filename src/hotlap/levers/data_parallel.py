"""Where a script wraps its model in DistributedDataParallel, and where it calls what comes of that."""

import ast
from dataclasses import dataclass

from hotlap.record import CallSite, Run
from hotlap.source import Script, scripts

_WRAPPER = ("torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel")


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
    return None if _sites(run) else "No model was seen that DistributedDataParallel wraps and the script calls by name."


def passes(run: Run) -> list[Pass]:
    """Calls of such models by a name (`model(x)`, `self.model(x)`).

    Raises:
        UserError: a file is missing or changed since.
    """
    known = [(script, site) for site in _sites(run) for script in scripts(run)]
    found = [(script, script.at(site), site) for script, site in known]
    return [Pass(run, script, call, site) for script, call, site in found if call is not None and _is_name(call.func)]


def wrappings(run: Run) -> list[tuple[Script, ast.Call]]:
    """Calls of DistributedDataParallel.

    Raises:
        UserError: a file is missing or changed since.
    """
    return [(script, call) for script in scripts(run) for call in script.calls(*_WRAPPER)]


def _sites(run: Run) -> list[CallSite]:
    return [site for site in run.call_sites if site.calls == "forward" and site.detail.get("data_parallel")]


def _is_name(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)
