"""What a call is given by name: written out in it, or in a literal mapping behind `**`, which stays as it is."""

import ast

from hotlap.source.names import bindings, bound
from hotlap.source.script import Script

Given = dict[str, ast.expr]


def keywords(script: Script, call: ast.Call) -> Given | None:
    """All keywords of a call; None where it is given a mapping that cannot be seen.

    Seen are a literal, `dict(...)` of keywords, and a name that the file binds once, in front of the call, to such a
    thing, and uses for nothing but `**name` and `name["key"]`.
    """
    given: Given = {}
    for word in call.keywords:
        found = _entries(script, word.value) if word.arg is None else {word.arg: word.value}
        if found is None:
            return None
        given |= found
    return given


def written(call: ast.Call, keyword: str) -> ast.expr | None:
    """What is written out in a call by this name."""
    return next((word.value for word in call.keywords if word.arg == keyword), None)


def argument(call: ast.Call, position: int, keyword: str) -> ast.expr | None:
    """What a call is given at this place, or by this name; None where neither is written out in it."""
    first = call.args[: position + 1]
    if any(isinstance(arg, ast.Starred) for arg in first):
        return None
    return first[position] if len(first) > position else written(call, keyword)


def why_unseen(script: Script, call: ast.Call, *names: str) -> str | None:
    """Why one of these keywords may be in a `**` argument of a call, as a clause; None where none can be."""
    open_ = [name for name in names if written(call, name) is None]
    given = keywords(script, call)
    if open_ and given is None:
        return f"{open_[0]} may be in a ** argument of the call; write it out"
    hidden = next((name for name in open_ if name in (given or {})), None)
    return None if hidden is None else f"{hidden} is in a ** argument of the call; write it out"


def _entries(script: Script, mapping: ast.expr) -> Given | None:
    match mapping:
        case ast.Call(func=ast.Name(id="dict"), args=[]) if "dict" not in script.names:
            return keywords(script, mapping)
        case ast.Dict(keys=keys, values=values):
            names = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
            return dict(zip(names, values, strict=True)) if len(names) == len(values) else None
        case ast.Name():
            return _assigned(script, mapping)
    return None


def _assigned(script: Script, used: ast.Name) -> Given | None:
    """What a name stands for that is bound once in the file, and only read."""
    nodes = [node for node in ast.walk(script.tree) if used.id in bound(node) or _imports(node, used.id)]
    uses = [node for node in ast.walk(script.tree) if isinstance(node, ast.Name) and node.id == used.id]
    match next(script.around(nodes[0])) if len(nodes) == 1 else None:
        case ast.Assign(targets=[ast.Name()], value=value) | ast.AnnAssign(value=ast.expr() as value):
            # In front of the call: so that none is looked for within itself.
            known = script.span(value)[1] <= script.span(used)[0]
            only_read = all(_is_read(next(script.around(node)), node) for node in uses if node not in nodes)
            return _entries(script, value) if known and only_read else None
    return None


def _imports(node: ast.AST, name: str) -> bool:
    """Or may do so: an import of all names."""
    return any(found.name in (name, "*") for found in bindings(node))


def _is_read(outer: ast.AST, node: ast.Name) -> bool:
    """`**name` in a call, or `name[...]`."""
    match outer:
        case ast.keyword(arg=None):
            return True
        case ast.Subscript(value=value, ctx=ast.Load()):
            return value is node
    return False
