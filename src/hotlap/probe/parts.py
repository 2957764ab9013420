"""Statements of a script -> do they train once more: another part of the training, or one in each turn of a loop?

Functions are followed by their names, in the files that are under way; nothing is run.
"""

import ast
from collections.abc import Iterable, Mapping
from types import FrameType

NAMED_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = NAMED_FUNCTIONS | ast.Lambda
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

_TRAINING = frozenset({"backward", "step"})

Functions = Mapping[str, NAMED_FUNCTIONS]
"""Name -> function; ".name" -> method; a class's name -> its `__init__`."""


Made = Mapping[int, int]
"""An optimizer, as it was made: address of each frame that was under way -> its line."""


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
        if name == "step" and (looped or closures) and any(_goes_backward(one, left) for one in arguments(node)):
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


def arguments(call: ast.Call) -> list[ast.expr]:
    """What it is given, in order."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def trains_anew(loop: ast.stmt | ast.expr, frame: FrameType, optimizers: Iterable[Made]) -> bool:
    """Each turn of a loop, or of a comprehension, of `frame` makes an optimizer: it trains another model, or the same
    one in another part. (A copy of a model that is made for some steps, as meta-learning does, is no such part.)"""
    if any(_name(node) == "deepcopy" for node in ast.walk(loop)):
        return False
    lines = range(loop.lineno, (loop.end_lineno or loop.lineno) + 1)
    return any(made.get(id(frame)) in lines for made in optimizers)
