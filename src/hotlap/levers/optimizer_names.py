"""Under which names optimizers step in a file, and where these names stand for the same things."""

import ast

from hotlap.source import Script, takes_inputs
from hotlap.source.names import bound


def backward_at(script: Script, line: int) -> ast.Call | None:
    """The one `loss.backward()` of a line, if it can be given `inputs`."""
    calls = [call for call in script.methods("backward") if call.lineno == call.end_lineno == line]
    return calls[0] if len(calls) == 1 and takes_inputs(calls[0]) else None


def name_at(script: Script, step: ast.Call) -> str | None:
    """`optimizer` of one such call; None for what may be something else each time (`optimizers[i].step()`)."""
    owner = _owner(step)
    return None if owner is None or _root(owner) is None else script.code(owner)


def is_known_at(script: Script, call: ast.Call, step: ast.Call) -> bool:
    """The name in `optimizer.step()` stands for the same optimizer at `call`."""
    owner = _owner(step)
    root = None if owner is None else _root(owner)
    if root is None:
        return False
    here, there = script.scope(call), script.scope(step)
    binders = [node for node in ast.walk(script.tree) if root in bound(node)]
    if here is there:
        # Bound once more behind it, it may be something else when it steps.
        mine = [node for node in binders if script.scope(node) is here]
        return all(getattr(node, "lineno", 0) < call.lineno for node in mine)
    if root == "self":
        return _class_of(script, here) is not None and _class_of(script, here) is _class_of(script, there)
    return bool(binders) and all(script.scope(node) is script.tree for node in binders)


def _class_of(script: Script, scope: ast.AST) -> ast.ClassDef | None:
    outer = script.scope(scope) if isinstance(scope, ast.FunctionDef) else None
    return outer if isinstance(outer, ast.ClassDef) else None


def _owner(step: ast.Call) -> ast.expr | None:
    return step.func.value if isinstance(step.func, ast.Attribute) and step.func.attr == "step" else None


def _root(node: ast.expr) -> str | None:
    """The variable that attributes are read of; None for anything that could be something else each time."""
    while isinstance(node, ast.Attribute) or (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
