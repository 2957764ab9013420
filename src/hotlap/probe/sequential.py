"""A call that is made in each turn of a loop -> is it given what came of it in the turn before?

Where an agent acts, the next observation depends on the action, so such calls cannot be made as one. It is told from
the source, by names: what the call is assigned to, what that is assigned to in turn, and objects with methods that are
given any of it (`env.step(action)` changes `env`).
"""

import ast
from collections.abc import Iterator, Sequence
from types import CodeType

from hotlap.probe.loops import Loop, Place, holds, parsed, way_in
from hotlap.probe.parts import COMPREHENSIONS, arguments
from hotlap.probe.sites import position


def is_sequential(calls: Sequence[tuple[CodeType, int]]) -> bool:
    """`calls`: those under way in the user's source, the innermost first: function, instruction in it. They are looked
    at up to the innermost loop. What a function without one has in attributes is there in its next call."""
    for code, instruction in calls:
        line, end_line, column, end_column = position(code, instruction)
        if line is None or column is None:
            return False
        tree, span = parsed(code.co_filename), (line, column, end_line, end_column)
        way = way_in(tree, (line, column))
        around = next((one for _, one in reversed(way) if _repeats(one, (line, column))), way[0][0])
        call = next((one for one in ast.walk(around) if isinstance(one, ast.Call) and _span(one) == span), None)
        if call is not None and _comes_back(call, around, tree):
            return True
        if around is not way[0][0]:
            return False
    return False


def _repeats(node: ast.AST, place: Place) -> bool:
    body = node.body if isinstance(node, Loop) else [node] if isinstance(node, COMPREHENSIONS) else []
    return any(holds(part, place) for part in body)


def _span(call: ast.Call) -> tuple[int | None, ...]:
    return call.lineno, call.col_offset, call.end_lineno, call.end_col_offset


def _comes_back(call: ast.Call, around: ast.AST, tree: ast.Module) -> bool:
    flows = list(_flows(around, {"self", *_imported(tree)}))
    came = [names for sources, names in flows if any(call in ast.walk(source) for source in sources)]
    known = _names(around.target, ast.Store) if isinstance(around, ast.For) else set[str]()
    early = _read_early(getattr(around, "body", []), known)
    kept = {name for name in _reached(set().union(*came), flows) & early if "." in name or isinstance(around, Loop)}
    return any(not _reached(kept, flows).isdisjoint(_names(argument)) for argument in arguments(call))


_Flow = tuple[list[ast.expr], set[str]]
"""What is read, and the names that it goes to."""


def _flows(around: ast.AST, constant: set[str]) -> Iterator[_Flow]:
    for node in ast.walk(around):
        match node:
            case ast.Assign(targets=targets, value=source):
                yield [source], {name for target in targets for name in _names(target, ast.Store)}
            case (
                ast.AugAssign(target=target, value=source)
                | ast.AnnAssign(target=target, value=ast.expr() as source)
                | ast.NamedExpr(target=target, value=source)
                | ast.For(target=target, iter=source)
                | ast.comprehension(target=target, iter=source)
                | ast.withitem(optional_vars=ast.expr() as target, context_expr=source)
            ):
                yield [source], _names(target, ast.Store)
            case ast.Call(func=ast.Attribute(value=owner)) if ast.unparse(owner) not in constant:
                yield arguments(node), {ast.unparse(owner)}


def _reached(names: set[str], flows: Sequence[_Flow]) -> set[str]:
    """These, and all that is made of them."""
    reached = set(names)
    while True:
        more = set().union(*(to for sources, to in flows if any(reached & _names(source) for source in sources)))
        if more <= reached:
            return reached
        reached |= more


def _read_early(body: Sequence[ast.stmt], known: set[str]) -> set[str]:
    """Names that are read in front of what sets them. `known`: those that are set; what the body sets is added."""
    early = set[str]()
    for statement in body:
        blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        for block in blocks:
            early |= _read_early(block, known if isinstance(statement, ast.With) else set(known))
        if not any(blocks):
            early |= _names(statement) - known
            known |= _names(statement, ast.Store)
    return early


def _names(node: ast.AST, kind: type[ast.expr_context] = ast.Load) -> set[str]:
    """Names and attributes, "env" and "env.state" of `env.state`; of what is stored into `rows[k]` "rows"."""
    found = set[str]()
    for one in ast.walk(node):
        if isinstance(one, ast.Name | ast.Attribute) and isinstance(one.ctx, kind):
            found.add(ast.unparse(one))
        elif isinstance(one, ast.Subscript) and isinstance(one.ctx, kind):
            found.add(ast.unparse(one.value))
        elif isinstance(one, ast.AugAssign):
            found.add(ast.unparse(one.target))
    return found


def _imported(tree: ast.Module) -> set[str]:
    """Modules, and what comes from them: no call of theirs changes them."""
    names = (alias for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names)
    return {alias.asname or alias.name.partition(".")[0] for alias in names}
