"""Advice: what a person changes in a minute, with its place, the code before and after, and what it brings at most.

Nobody measured what such a change brings, so it stands behind what was measured, and explains no fault.
"""

import ast
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hotlap.errors import UserError
from hotlap.record import Finding, HotLine, Run, Sighting
from hotlap.rules.step import Change, file_name, finding
from hotlap.source import Script, scripts
from hotlap.units import duration, percent


def advice(
    run: Run,
    at_most_s: float,
    evidence: str,
    *,
    change: Change | None = None,
    environment: Mapping[str, str] | None = None,
) -> Finding:
    """`evidence` is a clause without its period; what it brings at most is put behind it."""
    made = finding(run, at_most_s, "", change=change, environment=environment)
    bound = f"at most {duration(made.cost_s)} ({percent(made.share)}) of a step is to be had"
    return replace(made, evidence=f"{evidence}; {bound}.", advice=True)


def readable(run: Run) -> Sequence[Script]:
    """The script's own files; none where one is missing or was changed since."""
    try:
        return scripts(run)
    except UserError:
        return ()


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
    lines = script.text.splitlines()[first - 1 : last]
    before = textwrap.dedent("\n".join(lines))
    return Change(where(script.path, node.lineno), before, before.replace(script.code(node), code, 1))


def behind_imports(run: Run, code: str) -> Change:
    """A new statement behind the imports of the main script."""
    main = next(iter(run.sources), "")
    return Change(f"{file_name(main)}, behind its imports" if main else "", "", code)


def of_line(seen: Sighting | HotLine | None, after: str = "") -> Change | None:
    """A line that was seen becomes `after`; None where its text was not recorded. Without `after` the place alone."""
    if seen is None or not seen.text or seen.path is None or seen.line is None:
        return None
    return Change(where(seen.path, seen.line), seen.text, after)


def where(path: str, line: int) -> str:
    """ "train.py:12"."""
    return f"{file_name(path)}:{line}"
