"""Two versions of a script -> one of them with a mark in front of what is edited, by which a run tells that it ran.

Statements are compared, not lines: comments, docstrings, annotations of functions and layout make no edit. What is
edited must run: a statement itself; of an edited head (`def`, `if`, `for`) each block behind it as well. And of what
an edited statement sets (`FINETUNE_LR = 0.1`) a use must run, if there is one.
"""

import ast
import difflib
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass

from hotlap.source import snippet
from hotlap.source.settings import read, settings

_PASSED = "__hotlap_passed__"
_IMPORT = f"from hotlap.probe.marks import passed as {_PASSED}"

_Functions = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Edited:
    """Something that is edited."""

    line: int
    """In the version's own text, from 1."""
    marks: frozenset[int]
    """One of them must be passed."""
    excused: bool
    """It handles errors, or nothing in the file calls it: a training may well go without it."""


@dataclass(frozen=True, slots=True)
class Marked:
    """A version of a script."""

    text: str
    """Does the same, and calls `hotlap.probe.marks.passed` with the number of each mark."""
    edited: tuple[Edited, ...]
    """In the order of the text."""


def marked(text: str, other: str) -> Marked:
    """`text`, marked where it is not as `other`. (What `other` alone has is seen the other way round.)"""
    tree, others = snippet.parse(text), snippet.parse(other)
    statements = dict(_statements(tree.body, uncalled=_uncalled(tree)))
    uses = _uses(statements)
    known = {pair for node in ast.walk(others) if isinstance(node, ast.stmt) for pair in settings(node)}
    marks: dict[ast.stmt, int] = {}
    edited: dict[Edited, None] = {}

    def must_run(line: int, any_of: list[ast.stmt], *, excused: bool) -> None:
        numbers = frozenset(marks.setdefault(one, len(marks)) for one in any_of)
        edited[Edited(line, numbers, excused)] = None

    for node in _edited(tree, others, known):
        for one in (node, *_firsts(node)):
            must_run(one.lineno, [one], excused=statements[one])
        within = [one for one, _ in _statements([node])] if isinstance(node, _Functions) else [*statements]
        for name in sorted({name for name, _ in {*settings(node)} - known}):
            if used := [one for one in within if one in uses.get(name, ())]:
                must_run(node.lineno, used, excused=statements[node])
    return Marked(_with_marks(tree, marks), tuple(sorted(edited, key=lambda one: one.line)))


def _edited(tree: ast.Module, others: ast.Module, known: set[tuple[str, str]]) -> Iterator[ast.stmt]:
    plain, lines = _plain(tree), _plain(others).splitlines()
    matcher = difflib.SequenceMatcher(None, lines, plain.splitlines(), autojunk=False)
    new = {line + 1 for tag, _, _, begin, end in matcher.get_opcodes() if tag != "equal" for line in range(begin, end)}
    as_plain = _statements(snippet.parse(plain).body)
    for (node, _), (its, _) in zip(_statements(tree.body), as_plain, strict=True):
        moved = isinstance(node, ast.Import | ast.ImportFrom) and known.issuperset(settings(node))
        if not (moved or _is_text(node) or _is_future(node)) and not new.isdisjoint(_own_lines(its)):
            yield node


def _plain(tree: ast.Module) -> str:
    """One line for each statement, or head of one, without what does nothing."""
    tree = deepcopy(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, _Functions):
            node.returns = None
        elif isinstance(node, ast.Expr) and _is_text(node):
            node.value = ast.Constant(...)
    return ast.unparse(tree)


def _own_lines(node: ast.stmt) -> set[int]:
    """Those of no statement within it."""
    return set(_lines(node)).difference(*(_lines(one) for block in _blocks(node) for one in block))


def _lines(node: ast.stmt) -> range:
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
    return range(first, (node.end_lineno or node.lineno) + 1)


def _blocks(node: ast.stmt) -> list[list[ast.stmt]]:
    """The lists of statements within one, in the order of the text."""
    parts = [node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())]
    found = [getattr(part, "body", None) for part in parts] + [getattr(node, "orelse", None)]
    return [block for block in (*found, getattr(node, "finalbody", None)) if block]


def _firsts(node: ast.stmt) -> Iterator[ast.stmt]:
    """The first statement of each block, docstrings left out."""
    for block in _blocks(node):
        yield from [one for one in block if not _is_text(one)][:1]


def _statements(
    body: list[ast.stmt], *, excused: bool = False, uncalled: frozenset[str] = frozenset()
) -> Iterator[tuple[ast.stmt, bool]]:
    """All, in the order of the text, and whether each is excused. `uncalled`: names of functions in `body`."""
    for node in body:
        yield node, excused
        is_uncalled = isinstance(node, _Functions) and node.name in uncalled
        for block in _blocks(node):
            yield from _statements(block, excused=excused or is_uncalled or _is_for_errors(node, block))


def _is_for_errors(node: ast.stmt, block: list[ast.stmt]) -> bool:
    """Or for type checkers. A loader's end is no error: many loops begin their next epoch there."""
    if isinstance(node, ast.If):
        return isinstance(block[-1], ast.Raise) or (block is node.body and "TYPE_CHECKING" in ast.unparse(node.test))
    handler = next((one for one in getattr(node, "handlers", ()) if one.body is block), None)
    return handler is not None and not (handler.type and "StopIteration" in ast.unparse(handler.type))


def _uncalled(tree: ast.Module) -> frozenset[str]:
    """Functions of the module that nothing in it speaks of."""
    nodes = [*ast.walk(tree)]
    words = {getattr(node, name, None) for node in nodes for name in ("id", "attr")}
    words |= {node.value for node in nodes if isinstance(node, ast.Constant)}
    plain = (node for node in tree.body if isinstance(node, _Functions) and not node.decorator_list)
    return frozenset(node.name for node in plain if node.name not in words)


def _is_text(node: ast.stmt) -> bool:
    """A docstring, or `...`."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _uses(statements: Iterable[ast.stmt]) -> dict[str, set[ast.stmt]]:
    """What is set -> the statements that read it; for a function's head the first of its body, as a default by itself
    does nothing."""
    found: dict[str, set[ast.stmt]] = {}
    for node in statements:
        reader = next(_firsts(node), node) if isinstance(node, _Functions) else node
        for name in read(node):
            found.setdefault(name, set()).add(reader)
    return found


def _with_marks(tree: ast.Module, marks: dict[ast.stmt, int]) -> str:
    for block in [tree.body, *(block for node, _ in _statements(tree.body) for block in _blocks(node))]:
        block[:] = [one for statement in block for one in (*_mark(marks.get(statement)), statement)]
    first = next((k for k, node in enumerate(tree.body) if not (_is_text(node) or _is_future(node))), len(tree.body))
    tree.body[first:first] = ast.parse(_IMPORT).body
    return ast.unparse(tree)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _mark(number: int | None) -> list[ast.stmt]:
    return [] if number is None else ast.parse(f"{_PASSED}({number})").body
