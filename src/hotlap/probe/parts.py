"""Statements of a script -> do they train once more: another part of the training, or a new model in each turn of a
loop?

Functions are followed by their names, in the files that are under way; nothing is run.
"""

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import FrameType, ModuleType
from typing import Any, NamedTuple

from torch import nn

NAMED_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = NAMED_FUNCTIONS | ast.Lambda
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

_TRAINING = frozenset({"backward", "step"})

# From a variable to the model that it holds: a trainer's, or that of what a trainer has.
_DEPTH = 2

Functions = Mapping[str, NAMED_FUNCTIONS]
"""Name -> function; ".name" -> method; a class's name -> its `__init__`."""


class Made(NamedTuple):
    """An optimizer, as it was made."""

    lines: Mapping[int, int]
    """Address of each frame that was under way -> its line."""
    params: Collection[int]
    """Addresses of what it trains."""


def functions_of(trees: Iterable[ast.Module]) -> Functions:
    """The functions of some files; of two with the same name that of the later file."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    owners = [node for node in nodes if isinstance(node, ast.ClassDef)]
    classes: dict[ast.AST, str] = {one: owner.name for owner in owners for one in owner.body}
    by_name: dict[str, NAMED_FUNCTIONS] = {}
    for one in nodes:
        if isinstance(one, NAMED_FUNCTIONS):
            owner = classes.get(one)
            by_name[one.name if owner is None else owner if one.name == "__init__" else f".{one.name}"] = one
    return by_name


def _called(func: ast.expr, left: dict[str, NAMED_FUNCTIONS]) -> str | None:
    """The key of the function that a name or an attribute stands for, among those that are left."""
    name = _name(func)
    keys = [f".{name}"] * isinstance(func, ast.Attribute) + [str(name)]
    return next((key for key in keys if key in left), None)


def trains(statement: ast.AST, known: Functions, *, behind_loop: bool) -> bool:
    """It goes backward and lets an optimizer step in a loop, itself or by functions that it calls; behind the loop of
    another training also by one `step(closure)`, which may make hundreds of iterations."""
    return _called_in_loops(statement, dict(known), closures=behind_loop) >= _TRAINING


def _called_in_loops(
    node: ast.AST, left: dict[str, NAMED_FUNCTIONS], *, looped: bool = False, closures: bool = False
) -> set[str]:
    """Names of the methods; each function's body (`left`: those that were not looked into) counts once."""
    if isinstance(node, FUNCTIONS | ast.ClassDef):
        return set()  # it is made here, not called
    found = set()
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else None
        found |= {name} if looped and name is not None else set()
        if name == "step" and (looped or closures) and any(_goes_backward(one, left) for one in _arguments(node)):
            found |= _TRAINING
        function = left.pop(_called(node.func, left) or "", None)
        for statement in () if function is None else function.body:
            found |= _called_in_loops(statement, left, looped=looped, closures=closures)
    looped = looped or isinstance(node, ast.For | ast.While | COMPREHENSIONS)
    for child in ast.iter_child_nodes(node):
        found |= _called_in_loops(child, left, looped=looped, closures=closures)
    return found


def _goes_backward(closure: ast.expr, left: dict[str, NAMED_FUNCTIONS]) -> bool:
    """A function that an optimizer calls."""
    function = left.get(_called(closure, left) or "")
    body = [closure.body] if isinstance(closure, ast.Lambda) else [] if function is None else function.body
    return any("backward" in _called_in_loops(one, dict(left), looped=True) for one in body)


def _name(node: ast.AST) -> str | None:
    """ "fit" of `fit` and of `self.fit`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def trains_anew(
    loop: ast.stmt | ast.expr, frames: Sequence[FrameType], optimizers: Iterable[Made], known: Functions
) -> bool:
    """Each turn of a loop, or of a comprehension, makes an optimizer for another model: for parameters that are in no
    variable from before this turn. (One that is made anew each epoch for the same model, or for a copy of it, goes on
    with one training.)

    `frames`: the loop's own, and those around it.
    """
    if any(_name(node) == "deepcopy" for node in ast.walk(loop)):
        return False
    lines = range(loop.lineno, (loop.end_lineno or loop.lineno) + 1)
    of_turn = [one.params for one in optimizers if one.lines.get(id(frames[0])) in lines]
    set_here = set(_set_in(loop, known))
    own = frames[0].f_locals
    # An attribute by its owner, which may have another name in the frames around it.
    replaced = {(id(own.get(owner)), name) for owner, _, name in (one.rpartition(".") for one in set_here)}
    before = [value for name, value in own.items() if name not in set_here]
    before += [value for frame in frames[1:] for value in frame.f_locals.values()]
    before += [value for name, value in frames[0].f_globals.items() if name not in set_here]
    return any(not any(_holds(one, params, replaced, _DEPTH) for one in before) for params in of_turn)


def _set_in(loop: ast.AST, known: Functions) -> Iterator[str]:
    """Variables, and attributes ("self.net"), that it sets to something else than what comes of themselves; also by a
    method that it calls, of the object that it calls it of."""
    for node in ast.walk(loop):
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            value = getattr(node, "value", None)
            used = {ast.unparse(part) for part in ast.walk(value)} if isinstance(value, ast.expr) else set()
            names = {ast.unparse(part) for part in getattr(target, "elts", [target]) if isinstance(part, ast.expr)}
            yield from names - used
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = known.get(f".{node.func.attr}")
            own = method.args.args[0].arg if method is not None and method.args.args else None
            for name in _set_in(method, {}) if method is not None else ():
                owner, _, attribute = name.partition(".")
                if attribute and owner == own:
                    yield f"{ast.unparse(node.func.value)}.{attribute}"


def _holds(value: Any, params: Collection[int], replaced: Collection[tuple[int, str]], depth: int) -> bool:
    """It is a model with some of these parameters, or has one, but for attributes (of whom, name) `replaced` since."""
    kind = type(value)
    if issubclass(kind, nn.Module):
        return any(id(param) in params for param in value.parameters())
    if not depth or not kind.__dictoffset__ or issubclass(kind, type | ModuleType):
        return False
    attributes = object.__getattribute__(value, "__dict__").items()
    return any(
        _holds(one, params, replaced, depth - 1) for name, one in attributes if (id(value), name) not in replaced
    )
