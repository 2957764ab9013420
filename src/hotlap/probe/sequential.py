"""A call that is made in each turn of a loop -> is it given what was made behind it in the turn before?

Where an agent acts, what it observes next depends on its action, so such calls cannot be made as one. It is told from
the source, by names: `state` of `action = act(state)`, which `state = env.step(action)` sets for the next turn; or
`env` of `action = act(env.observe())`, which is given the action.
"""

import ast
from collections.abc import Sequence
from types import CodeType

from hotlap.probe.loops import Loop, Place, holds, parsed, way_in
from hotlap.probe.parts import COMPREHENSIONS, arguments
from hotlap.probe.sites import position
from hotlap.source.names import bindings


def is_sequential(calls: Sequence[tuple[CodeType, int]]) -> bool:
    """`calls`: those under way in the user's source, the innermost first: function, instruction in it. They are looked
    at up to the innermost loop. What a function without one has in attributes is there in its next call."""
    for code, instruction in calls:
        line, end_line, column, end_column = position(code, instruction)
        if line is None or column is None:
            return False
        script = parsed(code.co_filename)
        imported = {one.name for node in ast.walk(script) for one in bindings(node)}
        way = way_in(script, (line, column))
        loop = next((one for _, one in reversed(way) if _repeats(one, (line, column))), None)
        around, span = loop or way[0][0], (line, column, end_line, end_column)
        call = next((one for one in ast.walk(around) if isinstance(one, ast.Call) and _span(one) == span), None)
        if call is not None and any(loop is not None or "." in name for name in _kept(call, around, imported)):
            return True
        if loop is not None:
            return False
    return False


def _repeats(node: ast.AST, place: Place) -> bool:
    body = node.body if isinstance(node, Loop) else [node] if isinstance(node, COMPREHENSIONS) else []
    return any(holds(part, place) for part in body)


def _span(node: ast.expr | ast.stmt) -> tuple[int, int, int | None, int | None]:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _kept(call: ast.Call, around: ast.AST, imported: set[str]) -> set[str]:
    """Names that the call is given, or what it is given is made of, that are set behind it and not in front, or are
    given behind it what it made; but for modules."""
    given = set().union(*map(_read, arguments(call)))
    front, behind = _set(around.target) if isinstance(around, ast.For) else set[str](), set[str]()
    for one in reversed([one for one in ast.walk(around) if isinstance(one, ast.Assign)]):
        names = set().union(*map(_set, one.targets))
        if call in ast.walk(one) or one.lineno > call.lineno:
            behind |= set() if _read(one.value) <= names else names  # a counter goes on by itself
            continue
        given |= _read(one.value) if names & given else set()
        front |= names if one in getattr(around, "body", ()) else set()
    return given & (behind | _acted_on(call, around)) - front - imported


def _acted_on(call: ast.Call, around: ast.AST) -> set[str]:
    """Objects of which a method is given what came of the call: `env` of `env.step(action)`; `self` does all sorts."""
    made, acted = set[str](), set[str]()
    nodes = [one for one in ast.walk(around) if isinstance(one, ast.Assign | ast.Call) and one.lineno >= call.lineno]
    for one in sorted(nodes, key=lambda one: one.lineno):
        of_it = [one.value] if isinstance(one, ast.Assign) else arguments(one)
        if any(call in ast.walk(part) or made & _read(part) for part in of_it):
            made |= set().union(*map(_set, one.targets)) if isinstance(one, ast.Assign) else set()
            func = one.func if isinstance(one, ast.Call) else None
            acted |= {ast.unparse(func.value)} if isinstance(func, ast.Attribute) else set()
    return acted - {"self"}


def _read(node: ast.AST) -> set[str]:
    """ "self.env" and "self" of `self.env`."""
    return {ast.unparse(one) for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute)}


def _set(target: ast.expr) -> set[str]:
    """ "rows" of `rows[k]`."""
    stores = (one for one in ast.walk(target) if isinstance(getattr(one, "ctx", None), ast.Store))
    return {ast.unparse(one.value if isinstance(one, ast.Subscript) else one) for one in stores}
