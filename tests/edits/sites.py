"""Calls in a text, at the places that CPython itself gives them in compiled code."""

import ast
import hashlib
from collections.abc import Iterator
from types import CodeType

from hotlap.record import CallSite

Place = tuple[int, int, int, int]


def sites(text: str, name: str, *, path: str = "/x/train.py", data: bytes | None = None) -> list[CallSite]:
    """Each call of `name` (or of something's attribute `name`), in the order of the text."""
    code = compile(text, path, "exec", dont_inherit=True)
    known = set(_places(code))
    sha256 = hashlib.sha256(text.encode() if data is None else data).hexdigest()
    found = []
    for call in _calls(ast.parse(text)):
        if ast.unparse(call.func).rpartition(".")[2] == name:
            line, end_line, col, end_col = _place(call, known)
            found.append(
                CallSite(calls=name, path=path, sha256=sha256, line=line, end_line=end_line, col=col, end_col=end_col)
            )
    return found


def _calls(tree: ast.Module) -> list[ast.Call]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return sorted(calls, key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0))


def _place(call: ast.Call, known: set[Place]) -> Place:
    """Where the interpreter says that the call is."""
    assert call.end_lineno is not None and call.end_col_offset is not None
    whole = (call.lineno, call.end_lineno, call.col_offset, call.end_col_offset)
    if whole in known:
        return whole
    assert isinstance(call.func, ast.Attribute), whole
    line, end = call.func.end_lineno or 0, call.func.end_col_offset or 0
    starts = {place for place in known if (place[0], place[2]) == (line, end - len(call.func.attr))}
    return next(place for place in sorted(starts, reverse=True) if place[1] == call.end_lineno)


def _places(code: CodeType) -> Iterator[Place]:
    """The places of all instructions, in functions and classes too."""
    for line, end_line, col, end_col in code.co_positions():
        if line is not None and end_line is not None and col is not None and end_col is not None:
            yield line, end_line, col, end_col
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _places(constant)
