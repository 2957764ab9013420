"""Which names the models have where their optimizers are made."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from hotlap.record import CallSite, Run
from hotlap.source import Script, scripts


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model that is called, and whose parameters an optimizer is given, under one and the same name."""

    name: str
    """As it is written: "model", "self.net"."""
    optimizer: CallSite
    """Where its optimizer is made: in front of it the model is complete, and no state depends on it yet."""
    forward: CallSite
    """Where it is called."""


def named_models(run: Run) -> list[NamedModel]:
    """Those for which both are written out in the script's own source.

    Raises:
        UserError: a file is missing or changed since.
    """
    known = scripts(run)
    forwards = {name: site for site in run.call_sites for name in _called(site, known)}
    found = []
    for site in run.call_sites:
        for name in _given(site, known):
            if name in forwards:
                found.append(NamedModel(name=name, optimizer=site, forward=forwards[name]))
    return found


def _called(site: CallSite, known: list[Script]) -> Iterator[str]:
    """`model(x)` -> "model"."""
    if site.calls == "forward" and site.detail.get("parameters"):
        for script in known:
            call = script.at(site)
            if call is not None and _is_name(call.func):
                yield ast.unparse(call.func)


def _given(site: CallSite, known: list[Script]) -> Iterator[str]:
    """`Adam(model.parameters())` -> "model"."""
    if "optimizer" not in site.detail:
        return
    for script in known:
        call = script.at(site)
        values = [] if call is None else [*call.args[:1], *(w.value for w in call.keywords if w.arg == "params")]
        for value in values:
            function = value.func if isinstance(value, ast.Call) and not value.args else None
            if isinstance(function, ast.Attribute) and function.attr == "parameters" and _is_name(function.value):
                yield ast.unparse(function.value)


def _is_name(node: ast.expr) -> bool:
    """A name, or attributes of one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)
