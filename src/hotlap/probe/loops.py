"""Where a frame stands in its source, and the loops around that place."""

import ast
import linecache
from collections.abc import Iterator
from functools import cache
from types import FrameType

from hotlap.probe.expressions import Unknown
from hotlap.probe.parts import COMPREHENSIONS, FUNCTIONS
from hotlap.probe.sites import position

Loop = ast.For | ast.While
# (line, column): several statements may share a line.
Place = tuple[int, int]
_Placed = ast.stmt | ast.expr | ast.keyword | ast.ExceptHandler


def loops_around(frame: FrameType) -> list[Loop]:
    """Loops of the frame's own function in which it stands, the innermost first.

    Raises:
        Unknown: it is in a comprehension.
    """
    if any(True for _ in comprehensions_around(frame)):
        raise Unknown
    loops = (inner for _, inner in reversed(way_to(frame)) if isinstance(inner, Loop))
    return [loop for loop in loops if any(holds(part, place_of(frame)) for part in loop.body)]


def comprehensions_around(frame: FrameType) -> Iterator[COMPREHENSIONS]:
    """Those of the frame's statement that hold its place."""
    within = [inner for _, inner in way_to(frame) if isinstance(inner, ast.stmt)]
    for one in ast.walk(within[-1] if within else parsed(frame.f_code.co_filename)):
        if isinstance(one, COMPREHENSIONS) and holds(one, place_of(frame)):
            yield one


def way_to(frame: FrameType) -> list[tuple[ast.AST, ast.AST]]:
    """(node, the node within it that holds the place), from the frame's own function inwards."""
    return way_in(parsed(frame.f_code.co_filename), place_of(frame))


def place_of(frame: FrameType) -> Place:
    """Of the instruction that it is at.

    Raises:
        Unknown: its code does not say.
    """
    line, _, column, _ = position(frame.f_code, frame.f_lasti)
    if line is None or column is None:
        raise Unknown
    return line, column


def start_of(node: _Placed) -> Place:
    """Where its text begins."""
    return node.lineno, node.col_offset


def way_in(node: ast.AST, place: Place) -> list[tuple[ast.AST, ast.AST]]:
    """(node, the node within it that holds the place), from a node inwards, the innermost function's part of it."""
    found: list[tuple[ast.AST, ast.AST]] = []
    while (inner := next((one for one in ast.iter_child_nodes(node) if holds(one, place)), None)) is not None:
        found.append((node, inner))
        if isinstance(inner, FUNCTIONS):
            found.clear()
        node = inner
    return found


@cache
def parsed(path: str) -> ast.Module:
    """A file of the user's, as it is run (`hotlap.probe.edited`)."""
    return ast.parse("".join(linecache.getlines(path)))


def holds(node: ast.AST, place: Place) -> bool:
    """The place is in the node."""
    end = getattr(node, "end_lineno", None), getattr(node, "end_col_offset", None)
    return isinstance(node, _Placed) and start_of(node) <= place < end
