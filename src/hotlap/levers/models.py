"""Which names the models have where their optimizers are made."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from hotlap.record import CallSite, Run, ShapeFacts
from hotlap.source import Script, argument, found_at, is_name, scripts

# With more different shapes than this a graph for each, or one for all, is compiled again and again
# (torch._dynamo.config.recompile_limit is 8); and pinned blocks are kept by size (pytorch/pytorch#124456).
_MOST_SHAPES = 8

NO_CONVOLUTION = "The model has no convolution over images."

NO_NAME = (
    "No model was seen that has a name in the script's source both where it is called and where its optimizer is made."
)

_SECOND_DERIVATIVES = re.compile(r"\bcreate_graph\b(?!\s*=\s*False\b)")


def forward_sites(run: Run, detail: str = "parameters") -> list[CallSite]:
    """Where the script calls models of which this is known."""
    return [site for site in run.call_sites if site.calls == "forward" and site.detail.get(detail)]


def keep_coming(shapes: ShapeFacts) -> bool:
    """The model is given new shapes again and again."""
    return shapes.num_shapes > _MOST_SHAPES and 2 * shapes.num_new_late > shapes.num_shapes


def not_float32(run: Run) -> str | None:
    """A sentence where an optimizer has parameters of another type."""
    others = any(dtype != "float32" for optimizer in run.optimizers for dtype in optimizer.dtypes)
    return "The parameters are not all float32." if others else None


def takes_second_derivatives(run: Run) -> bool:
    """Somewhere in the script's source stands `create_graph`, and not that it is off.

    Raises:
        UserError: a file is missing or changed since.
    """
    return any(_SECOND_DERIVATIVES.search(script.text) for script in scripts(run))


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model that is called, under a name that it has where its optimizer is made as well."""

    name: str
    """As it is written: "model", "self.net"."""
    before: CallSite
    """What makes its optimizer: in front of it the model is complete, and no state depends on it yet."""
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
    return list(found.values())


def _called(site: CallSite, known: list[Script]) -> Iterator[_Mention]:
    """`model(x)` -> "model"."""
    if site.calls == "forward" and site.detail.get("parameters") and not site.detail.get("through"):
        found = found_at(site, known)
        if found is not None and is_name(found[1].func):
            yield _Mention(ast.unparse(found[1].func), *found, site)


def _given(site: CallSite, known: list[Script]) -> Iterator[_Mention]:
    """`Adam(model.parameters())` -> "model"; also from a list, a filter, groups, or a variable that holds them."""
    found = found_at(site, known) if "optimizer" in site.detail else None
    if found is None:
        return
    script, call = found
    value = argument(call, 0, "params")
    for part in () if value is None else (value, *_values_of(value, script, call)):
        for owner in _owners(part):
            if _has_name(owner, script, call) and _has_name(owner, script, part):
                yield _Mention(ast.unparse(owner), script, call, site)
                method = script.scope(call)
                if ast.unparse(owner) == "self" and isinstance(method, ast.FunctionDef):
                    yield from _owners_of(method.name, known)


def _owners_of(method: str, known: list[Script]) -> Iterator[_Mention]:
    """What a method is called of: "model" of `model.configure_optimizers()`, which makes one of `self.parameters()`."""
    for script in known:
        for call in script.methods(method):
            if isinstance(call.func, ast.Attribute) and is_name(call.func.value):
                yield _Mention(ast.unparse(call.func.value), script, call, script.site(call, calls=method))


def _values_of(value: ast.expr, script: Script, call: ast.Call) -> Iterator[ast.expr]:
    """What the function around a call assigns to the variables that the call is given, in a list of groups or by
    themselves, and to those that these are made of."""
    scope = script.scope(call)
    assigned = [node for node in ast.walk(scope) if isinstance(node, ast.Assign) and script.scope(node) is scope]
    waiting, known = [value], set[str]()
    while waiting:
        read = {node.id for node in ast.walk(waiting.pop()) if isinstance(node, ast.Name)} - known
        known |= read
        found = [node.value for node in assigned if read & {ast.unparse(name) for name in node.targets}]
        waiting += found
        yield from found


def _owners(value: ast.expr) -> Iterator[ast.expr]:
    """Whose parameters are read in an expression: `model` of `model.parameters()`."""
    for node in ast.walk(value):
        function = node.func if isinstance(node, ast.Call) and not node.args else None
        if isinstance(function, ast.Attribute) and function.attr in ("parameters", "named_parameters"):
            yield function.value


def _is_part(called: _Mention, given: _Mention) -> bool:
    """What is called is what the optimizer is given, or a part of it, or what that is a part of."""
    if called.name == given.name:
        return True
    whole, part = sorted((called.name, given.name), key=len)
    if not part.startswith(f"{whole}."):
        return False
    # Two methods mean the same by `self` where their class is the same.
    own = given.script.class_of(given.call)
    same_class = own is not None and own is called.script.class_of(called.call)
    return same_class or given.name.split(".")[0] != "self"


def _has_name(node: ast.expr, script: Script, call: ast.expr) -> bool:
    """It is a name that is bound in front of the statement of the call, not by it: `f(m := Net(), Adam(m))`."""
    statement = next((node for node in script.around(call) if isinstance(node, ast.stmt)), call)
    targets = [n.target for n in ast.walk(statement) if isinstance(n, ast.NamedExpr | ast.comprehension)]
    bound = {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    return is_name(node) and not any(isinstance(n, ast.Name) and n.id in bound for n in ast.walk(node))
