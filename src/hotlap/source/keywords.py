"""What a call is given by name: written out in it, or in a mapping behind `**` that can be seen."""

import ast
from collections.abc import Iterator

from hotlap.source.names import bindings, bound
from hotlap.source.script import Script

Given = dict[str, ast.expr | None]
"""Name -> value; None for that of a mapping which other calls are given as well, so that it must stay as it is."""


def keywords(script: Script, call: ast.Call) -> Given | None:
    """All keywords of a call; None where it is given a mapping that cannot be seen.

    Seen are a literal, `dict(...)` of keywords, and a name that its scope assigns such a thing once, in front of the
    call, and uses for nothing but `**name` and `name["key"]`.
    """
    given: Given = {}
    for word in call.keywords:
        found = _entries(script, word.value) if word.arg is None else {word.arg: word.value}
        if found is None:
            return None
        given |= found
    return given


def value_of(script: Script, call: ast.Call, keyword: str) -> ast.expr | None:
    """What a call is given by this name; None where it is not, or `why_unseen` says why that cannot be told."""
    written = next((word.value for word in call.keywords if word.arg == keyword), None)
    return written or (keywords(script, call) or {}).get(keyword)


def why_unseen(script: Script, call: ast.Call, keyword: str) -> str | None:
    """Why it cannot be told, or not be changed, what a call is given by this name, as a clause; None where it can."""
    if any(word.arg == keyword for word in call.keywords):
        return None
    given = keywords(script, call)
    if given is None:
        return f"{keyword} may be in a ** argument of the call; write it out"
    if keyword in given and given[keyword] is None:
        return f"{keyword} is in a mapping that other calls are given as well; write it out"
    return None


def _entries(script: Script, mapping: ast.expr) -> Given | None:
    match mapping:
        case ast.Call(func=ast.Name(id="dict"), args=[]) if "dict" not in script.names:
            return keywords(script, mapping)
        case ast.Dict():
            return _items(script, mapping)
        case ast.Name():
            return _assigned(script, mapping)
    return None


def _items(script: Script, mapping: ast.Dict) -> Given | None:
    given: Given = {}
    for key, value in zip(mapping.keys, mapping.values, strict=True):
        match key:
            case None:
                found = _entries(script, value)
            case ast.Constant(value=str(name)):
                found = {name: value}
            case _:
                found = None
        if found is None:
            return None
        given |= found
    return given


def _assigned(script: Script, used: ast.Name) -> Given | None:
    scope = script.scope(used)
    nodes = [node for node in ast.walk(scope) if _binds(node, used.id) and script.scope(node) is scope]
    uses = [node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == used.id and node not in nodes]
    match next(script.around(nodes[0])) if len(nodes) == 1 else None:
        case ast.Assign(targets=[ast.Name()], value=value) | ast.AnnAssign(value=ast.expr() as value):
            # In front of the call: so that none is looked for within itself.
            known = script.span(value)[1] <= script.span(used)[0] and used.id not in _declared(script)
            found = _entries(script, value) if known and all(_only_read(script, node) for node in uses) else None
            shared = sum(_handed_on(script, node) for node in uses) > 1
            return dict.fromkeys(found) if found is not None and shared else found
    return None


def _binds(node: ast.AST, name: str) -> bool:
    """Or may do so: an import of all names."""
    return name in bound(node) or any(found.name in (name, "*") for found in bindings(node))


def _declared(script: Script) -> Iterator[str]:
    """Names that a function binds in another scope than its own."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield from node.names


def _only_read(script: Script, node: ast.Name) -> bool:
    """`**name`, or `name[...]`."""
    outer = next(script.around(node))
    return _handed_on(script, node) or (
        isinstance(outer, ast.Subscript) and outer.value is node and isinstance(outer.ctx, ast.Load)
    )


def _handed_on(script: Script, node: ast.Name) -> bool:
    """`**name`, in a call or in another mapping."""
    match next(script.around(node)):
        case ast.keyword(arg=None):
            return True
        case ast.Dict(keys=keys, values=values):
            return any(value is node and key is None for key, value in zip(keys, values, strict=True))
    return False
