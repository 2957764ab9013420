"""Where a script copies its batches to the device: what a loop, a function or a lambda is given, moved by name."""

import ast
from collections.abc import Iterator, Sequence

from hotlap.source import Script, moved_to
from hotlap.source.names import bound

# Parameters of these names are what trains, not what it is trained on.
_MODELS = ("self", "cls", "model", "net", "module")


def copies(scripts: Sequence[Script]) -> Iterator[tuple[Script, ast.Call]]:
    """The calls that copy a part of what a loop goes over, or of what a function is given, to a device.

    By names alone: it may be something else than a batch, whose copy need not be waited for either.
    """
    for script in scripts:
        for call in script.all_calls():
            moves = isinstance(call.func, ast.Attribute) and moved_to(call) is not None
            if moves and _is_given(script, call.func.value, frozenset()):  # type: ignore[attr-defined]
                yield script, call


def _is_given(script: Script, node: ast.expr, followed: frozenset[str]) -> bool:
    """A part of a loop's variable, or of a parameter; or of what such a part was assigned to."""
    match node:
        case ast.Attribute(value=owner) | ast.Subscript(value=owner) | ast.Starred(value=owner):
            return _is_given(script, owner, followed)
        case ast.Call(func=ast.Attribute(value=owner)):  # a method of it: `batch["x"].float()`
            return _is_given(script, owner, followed)
        case ast.Call(func=ast.Name(id="next")):
            return True
        case ast.Name(id=name) if name not in followed:
            return any(_gives(script, outer, name, followed | {name}) for outer in script.around(node))
    return False


def _gives(script: Script, outer: ast.AST, name: str, followed: frozenset[str]) -> bool:
    """What stands around a name binds it to something that is given."""
    match outer:
        case ast.For(target=target):
            return _binds(target, name)
        case ast.ListComp(generators=parts) | ast.DictComp(generators=parts) | ast.GeneratorExp(generators=parts):
            return any(_binds(part.target, name) for part in parts)
        case ast.Lambda():
            return any(parameter.arg == name for parameter in outer.args.args)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Module():
            given = () if isinstance(outer, ast.Module) else (*outer.args.args, *outer.args.kwonlyargs)
            if any(parameter.arg == name for parameter in given):
                return not any(word in name for word in _MODELS)
            assigned = (
                node for node in ast.walk(outer) if isinstance(node, ast.Assign) and script.scope(node) is outer
            )
            return any(_binds(node.targets[0], name) and _is_given(script, node.value, followed) for node in assigned)
    return False


def _binds(target: ast.expr, name: str) -> bool:
    return any(name in bound(node) for node in ast.walk(target))
