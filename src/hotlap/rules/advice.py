"""Advice: what a person changes in a minute, with its place, the code before and after, and what it brings at most.

Nobody measured what such a change brings, so it stands behind what was measured, and explains no fault.
"""

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile

from hotlap.record import Finding, HotLine, Run, Sighting
from hotlap.rules.change import Change, readable
from hotlap.rules.step import finding
from hotlap.source import Script

# What computes its parts once, one after the other: one of them can be computed in front of it. (A comparison does, of
# two.)
_ONCE = (ast.Attribute, ast.Call, ast.Subscript, ast.keyword, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List)


def advice(run: Run, at_most_s: float, evidence: str, *, change: Change | None) -> Finding:
    """`evidence` is a clause without its period; what it brings at most is put behind it."""
    made = finding(run, at_most_s, "", change=change)
    told = f"{evidence}; at most {run.with_share(made.cost_s)} of a step is to be had."
    return replace(made, evidence=told, advice=True)


def calls(run: Run, *names: str) -> Iterator[tuple[Script, ast.Call]]:
    """Calls of these functions, by full name, in the script's own files."""
    return ((script, call) for script in readable(run) for call in script.calls(*names))


def replaced(script: Script, node: ast.expr, code: str) -> Change:
    """The statement around an expression, with `code` in the expression's place."""
    statement = next((outer for outer in script.around(node) if isinstance(outer, ast.stmt)), node)
    # Of a compound statement the lines of the expression itself.
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    if hasattr(statement, "body"):
        first, last = node.lineno, node.end_lineno or node.lineno
    begin = script.starts[first - 1]
    end = script.line_end(script.starts[last - 1])
    start, stop = script.span(node)
    before, after = (f"{script.text[begin:start]}{part}{script.text[stop:end]}" for part in (script.code(node), code))
    return Change(script.path, first, textwrap.dedent(before), textwrap.dedent(after))


def without_graph(script: Script, call: ast.Call) -> Change | None:
    """`with torch.no_grad():` around a call alone; None where nothing can be put in front of its statement."""
    around = list(takewhile(lambda outer: not isinstance(outer, ast.stmt), script.around(call)))
    statement = next(outer for outer in script.around(call) if isinstance(outer, ast.stmt))
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr | ast.Return):
        return None
    start, _ = script.span(statement)
    if script.text[script.line_start(start) : start].strip():
        return None  # behind an `if` or a semicolon
    alone = all(_only_passes_on(outer, inner) for outer, inner in zip(around, [call, *around], strict=False))
    if alone and not isinstance(statement, ast.AugAssign):
        whole = replaced(script, call, script.code(call))
        return replace(whole, after=f"with torch.no_grad():\n{textwrap.indent(whole.before, '    ')}")
    if not all(isinstance(one, _ONCE) or (isinstance(one, ast.Compare) and len(one.ops) == 1) for one in around):
        return None
    name = f"{script.code(call.func).rpartition('.')[2]}_out".lstrip("_")
    if not name.isidentifier() or name in script.names:
        return None
    whole = replaced(script, call, name)
    return replace(whole, after=f"with torch.no_grad():\n    {name} = {script.code(call)}\n{whole.after}")


def _only_passes_on(outer: ast.AST, inner: ast.AST) -> bool:
    """Nothing but `inner` that may have gradients goes into it: `.logits` of it, `[0]`."""
    parts = [part for part in ast.iter_child_nodes(outer) if part is not inner]
    return isinstance(outer, ast.Attribute | ast.Call | ast.Subscript) and all(
        isinstance(part, ast.Constant | ast.expr_context) for part in parts
    )


def behind_imports(run: Run, code: str) -> Change:
    """A new statement behind the imports of the main script."""
    main = next(iter(run.sources), "")
    return Change(path=main, after=code)


def of_line(seen: Sighting | HotLine | None, after: str = "") -> Change | None:
    """A line that was seen becomes `after`; None where its text was not recorded. Without `after` the place alone."""
    if seen is None or not seen.text or seen.path is None or seen.line is None:
        return None
    return Change(seen.path, seen.line, seen.text, after)
