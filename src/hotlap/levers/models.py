"""Which names the models have where their optimizers are made."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count

from hotlap.levers.lever import Lever, cannot_write
from hotlap.levers.trainers import made_trainers, own_classes
from hotlap.record import CallSite, Run
from hotlap.source import Edit, InsertBefore, ReplaceCall, Script, scripts

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
    naming: tuple[Edit, ...] = ()
    """What gives it this name first: `Trainer(model=make())` -> `model = make()` in front of `Trainer(model=model)`."""


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
    """`Adam(model.parameters())` -> "model"; also from a list, a filter, groups, or a variable that holds them."""
    if "optimizer" not in site.detail:
        return
    for script, call in _calls(site, known):
        for value in (*call.args[:1], *(word.value for word in call.keywords if word.arg == "params")):
            for part in (value, *_values_of(value, script, call)):
                for owner in _owners(part):
                    if _has_name(owner, script, call) and _has_name(owner, script, part):
                        yield _Mention(ast.unparse(owner), script, call, site)


def _values_of(value: ast.expr, script: Script, call: ast.Call) -> Iterator[ast.expr]:
    """What the function around a call assigns to a variable that the call is given."""
    if isinstance(value, ast.Name):
        for node in ast.walk(script.scope(call)):
            names = node.targets if isinstance(node, ast.Assign) and script.scope(node) is script.scope(call) else []
            if isinstance(node, ast.Assign) and any(ast.unparse(name) == value.id for name in names):
                yield node.value


def _owners(value: ast.expr) -> Iterator[ast.expr]:
    """Whose parameters are read in an expression: `model` of `model.parameters()`."""
    for node in ast.walk(value):
        function = node.func if isinstance(node, ast.Call) and not node.args else None
        if isinstance(function, ast.Attribute) and function.attr in ("parameters", "named_parameters"):
            yield function.value


def _calls(site: CallSite, known: list[Script]) -> Iterator[tuple[Script, ast.Call]]:
    """The call at `site`, with the file that it is in."""
    return ((script, call) for script in known if (call := script.at(site)) is not None)


def _is_part(called: _Mention, given: _Mention) -> bool:
    """What is called is what the optimizer is given, or a part of it, or what that is a part of."""
    if called.name == given.name:
        return True
    whole, part = sorted((called.name, given.name), key=len)
    if not part.startswith(f"{whole}."):
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
        site = made.script.site(made.call, calls="transformers.Trainer")
        if made.model is not None and _has_name(made.model, made.script, made.call):
            yield NamedModel(name=ast.unparse(made.model), before=site, forward=forward)
        elif isinstance(made.model, ast.Call) and _comes_first(made.model, made.script, made.call):
            name = _new_name(made.script)
            naming = (
                InsertBefore(site=site, code=f"{name} = {ast.unparse(made.model)}"),
                ReplaceCall(site=made.script.site(made.model, calls="model"), code=name),
            )
            yield NamedModel(name=name, before=site, forward=forward, naming=naming)


def _comes_first(model: ast.Call, script: Script, call: ast.Call) -> bool:
    """Nothing else of the statement is computed before the model: it can as well be made in front of it."""
    statement = next((node for node in script.around(call) if isinstance(node, ast.stmt)), None)
    if not isinstance(statement, ast.Expr | ast.Assign | ast.Return) or not _is_name(call.func):
        return False
    outer = statement.value
    while outer is not call:  # `Trainer(...).train()`: what is called behind it
        if not isinstance(outer, ast.Call) or not isinstance(outer.func, ast.Attribute):
            return False
        outer = outer.func.value
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    before = given[: given.index(model)]
    return not any(isinstance(node, _COMPUTED) for part in before for node in ast.walk(part)) and not any(
        isinstance(node, _BOUND) for node in ast.walk(model)
    )


_BOUND = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
_COMPUTED = (ast.Call, ast.Starred, *_BOUND)


def _new_name(script: Script) -> str:
    """A name that the file has for nothing."""
    nodes = [node for node in ast.walk(script.tree) if not isinstance(node, ast.keyword)]
    known = {str(getattr(node, field, "")).split(".")[0] for node in nodes for field in ("id", "name", "asname", "arg")}
    return next(name for name in chain(("model", "net"), (f"model_{k}" for k in count(1))) if name not in known)


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
                f"The model that the Trainer in line {made.call.lineno} is given has no name, and is not what is "
                "made first there; assign it to a variable in front."
            )


def _has_name(node: ast.expr, script: Script, call: ast.expr) -> bool:
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
