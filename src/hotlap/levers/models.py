"""Which names the models have where their optimizers are made."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from hotlap.levers.lever import Lever, cannot_write
from hotlap.levers.trainers import made_trainers, own_classes
from hotlap.record import CallSite, Run
from hotlap.source import Script, scripts

_NO_NAME = (
    "No model was seen that has a name in the script's source both where it is called and where its optimizer is made, "
    "or where a Hugging Face Trainer is given it."
)


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model that is called, under a name that it has where its optimizer is made as well."""

    name: str
    """As it is written: "model", "self.net"."""
    before: CallSite
    """What makes its optimizer, or the Trainer that will: in front of it the model is complete, and no state depends
    on it yet."""
    forward: CallSite
    """Where it is called."""


@dataclass(frozen=True, slots=True)
class _Mention:
    """A model's name in a call."""

    name: str
    script: Script
    call: ast.Call
    site: CallSite


def named_models(run: Run) -> list[NamedModel]:
    """Those for which both are written out in the script's own source.

    An optimizer of `model.parameters()` is also that of `model.encoder`: where that is called, it is the one named.

    Raises:
        UserError: a file is missing or changed since.
    """
    known = scripts(run)
    called = [mention for site in run.call_sites for mention in _called(site, known)]
    found: dict[tuple[str, ast.Call], NamedModel] = {}
    for site in run.call_sites:
        for given in _given(site, known):
            for mention in called:
                if _is_part(mention, given):
                    model = NamedModel(name=mention.name, before=given.site, forward=mention.site)
                    found.setdefault((mention.name, given.call), model)
    names = {name for name, _ in found}
    return [*found.values(), *(model for model in _of_trainers(run, known) if model.name not in names)]


def cannot_name(lever: Lever, run: Run) -> str | None:
    """Why no model has a name by which the lever could change it; None where one has."""
    reason = cannot_write(lever, run, _NO_NAME)
    return reason if reason != _NO_NAME else next(_nameless(scripts(run)), _NO_NAME)


def _called(site: CallSite, known: list[Script]) -> Iterator[_Mention]:
    """`model(x)` -> "model"."""
    if site.calls == "forward" and site.detail.get("parameters") and not site.detail.get("through"):
        for script, call in _calls(site, known):
            if _is_name(call.func):
                yield _Mention(ast.unparse(call.func), script, call, site)


def _given(site: CallSite, known: list[Script]) -> Iterator[_Mention]:
    """`Adam(model.parameters())` -> "model"."""
    if "optimizer" not in site.detail:
        return
    for script, call in _calls(site, known):
        for value in (*call.args[:1], *(word.value for word in call.keywords if word.arg == "params")):
            function = value.func if isinstance(value, ast.Call) and not value.args else None
            owner = function.value if isinstance(function, ast.Attribute) and function.attr == "parameters" else None
            if owner is not None and _has_name(owner, script, call):
                yield _Mention(ast.unparse(owner), script, call, site)


def _calls(site: CallSite, known: list[Script]) -> Iterator[tuple[Script, ast.Call]]:
    """The call at `site`, with the file that it is in."""
    return ((script, call) for script in known if (call := script.at(site)) is not None)


def _is_part(called: _Mention, given: _Mention) -> bool:
    """What is called is what the optimizer is given, or a part of it."""
    if called.name == given.name:
        return True
    if not called.name.startswith(f"{given.name}."):
        return False
    # Two methods mean the same by `self` where their class is the same.
    same_class = _class(given) is not None and _class(given) is _class(called)
    return same_class or given.name.split(".")[0] != "self"


def _class(mention: _Mention) -> ast.ClassDef | None:
    """The class in whose body it is."""
    outer = mention.script.around(mention.call)
    return next((node for node in outer if isinstance(node, ast.ClassDef)), None)


def _of_trainers(run: Run, known: list[Script]) -> Iterator[NamedModel]:
    """`Trainer(model)` -> "model", where a Trainer was seen to call one."""
    forward = next((site for site in run.call_sites if _by_trainer(site, known)), None)
    if forward is None:
        return
    for made in made_trainers(known):
        if made.model is not None and _has_name(made.model, made.script, made.call):
            site = made.script.site(made.call, calls="transformers.Trainer")
            yield NamedModel(name=ast.unparse(made.model), before=site, forward=forward)


def _by_trainer(site: CallSite, known: list[Script]) -> bool:
    """The call of a model by Hugging Face's source, or by the user's own `compute_loss`."""
    if site.calls != "forward" or not site.detail.get("parameters"):
        return False
    if str(site.detail.get("through", "")).startswith("transformers."):
        return True
    own = own_classes(known).values()
    return any(outer in own for script, call in _calls(site, known) for outer in script.around(call))


def _nameless(known: list[Script]) -> Iterator[str]:
    """Why the models of Trainers have no names."""
    for made in made_trainers(known):
        if made.model_init:
            yield f"The Trainer in line {made.call.lineno} makes its model itself (model_init), so it has no name."
        elif made.model is not None and not _is_name(made.model):
            yield (
                f"The model that the Trainer in line {made.call.lineno} is given has no name; "
                "assign it to a variable in front."
            )


def _has_name(node: ast.expr, script: Script, call: ast.Call) -> bool:
    """It is a name that is bound in front of the statement of the call, not by it: `f(m := Net(), Adam(m))`."""
    statement = next((node for node in script.around(call) if isinstance(node, ast.stmt)), call)
    targets = [n.target for n in ast.walk(statement) if isinstance(n, ast.NamedExpr | ast.comprehension)]
    bound = {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    return _is_name(node) and not any(isinstance(n, ast.Name) and n.id in bound for n in ast.walk(node))


def _is_name(node: ast.expr) -> bool:
    """A name, or attributes of one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)
