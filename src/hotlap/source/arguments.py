"""Edits of a call's arguments."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from hotlap.source import snippet
from hotlap.source.edits import Edit
from hotlap.source.file import Refusal
from hotlap.source.keywords import argument, why_unseen, written
from hotlap.source.names import needed
from hotlap.source.page import Page, Splice

# Longer lines are broken: the most that formatters are set to.
_MOST_COLUMNS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class AddArgument(Edit):
    """`Adam(params, lr=0.1)` -> `Adam(params, lr=0.1, fused=True)`. A present keyword of that name is replaced."""

    keyword: str
    value: str

    def splices(self, page: Page) -> Iterator[Splice]:
        """The value that is there; else one argument more."""
        if not self.keyword.isidentifier() or not snippet.is_value(self.value):
            raise ValueError(f"not a keyword and a value: {self.keyword}={self.value!r}")
        page.settle(self.site, self.keyword, self.value)
        call, new = page.call(self.site), page.renamed(self.value, self.imports)
        given = _given(call, self.keyword)
        if given is None:
            yield from _appended(page, call, f"{self.keyword}={new}")
        elif not snippet.same(page.script.code(given), new):
            yield *page.script.span(given), new


@dataclass(frozen=True, slots=True, kw_only=True)
class WrapArgument(Edit):
    """`DataLoader(train, ...)` -> `DataLoader(cached(train), ...)`, importing what is needed."""

    position: int
    """Index of the argument when it is given by position."""
    keyword: str
    """Its name when it is given by keyword."""
    function: str
    """Name put around it, which `imports` bind."""
    arguments: str = ""
    """What the function is given besides: `disk=True`."""

    def splices(self, page: Page) -> Iterator[Splice]:
        """Around the argument, unless the function is called somewhere in it."""
        call = page.call(self.site)
        value = argument(call, self.position, self.keyword) or _given(call, self.keyword)
        if value is None:
            raise Refusal(f"the call has no argument {self.keyword} to be seen; it may be in a * argument")
        function, own = page.renamed(self.function, self.imports), [one.target for one in needed(self.imports)]
        inner: ast.expr | None = value
        while isinstance(inner, ast.Call):  # it may stand within others
            if page.names.is_any(page.script.code(inner.func), own):
                return
            inner = inner.args[0] if inner.args else None
        start, end = page.outer(value)
        yield start, start, f"{function}("
        yield end, end, f", {self.arguments})" if self.arguments else ")"


def _given(call: ast.Call, keyword: str) -> ast.expr | None:
    """What a call is given by this name; `Refusal` where that cannot be told, or not be changed."""
    reason = why_unseen(call, keyword)
    if reason is not None:
        raise Refusal(reason)
    return written(call, keyword)


def _margin_of(page: Page, opened: int, first: int) -> str:
    """The space in front of a call's arguments, where they stand below each other: as the line of the first one has it,
    or up to the bracket."""
    text, line = page.script.text, page.script.line_start(first)
    return text[line:first] if line > opened else " " * (opened - page.script.line_start(opened))


def _appended(page: Page, call: ast.Call, new: str) -> Iterator[Splice]:
    """Behind the last argument; where that has a line of its own, on one as well, below a comment on that line."""
    text, (opening, *inside, _) = page.script.text, page.brackets(call)
    if not inside:
        yield opening.end, opening.end, new
        return
    arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    last = max(arguments, key=page.script.span)
    value = last.value if isinstance(last, ast.keyword | ast.Starred) else last
    start, end = page.outer(value)
    if page.script.span(value)[0] == opening.start:  # a generator expression
        yield start, start, "("
        yield end, end, ")"
    start = start if last is value else page.script.span(last)[0]
    line = page.script.line_start(start)
    if text[line:start].strip() or line < page.script.span(call)[0]:
        below = page.script.line_end(end) - page.script.line_start(end) + len(f", {new}") > _MOST_COLUMNS
        yield end, end, f",\n{_margin_of(page, opening.end, inside[0].start)}{new}" if below else f", {new}"
        return
    comma = next((token.end for token in inside if token.start >= end), end)
    line_end = page.script.line_end(comma)
    rest = text[comma:line_end].strip()
    on_next_line = f"\n{text[line:start]}{new}"
    if comma > end and (not rest or rest.startswith("#")):
        yield line_end, line_end, f"{on_next_line},"
    elif rest.startswith("#"):
        yield end, end, ","
        yield line_end, line_end, on_next_line
    else:  # also where the closing bracket is on the same line: in front of a comma, so that a trailing one stays one
        yield end, end, f",{on_next_line}"
