"""Edits of a call's arguments."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from hotlap.source import snippet
from hotlap.source.edits import Edit
from hotlap.source.file import Refusal
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


def written(call: ast.Call, keyword: str) -> ast.expr | None:
    """What is written out in a call by this name."""
    return next((word.value for word in call.keywords if word.arg == keyword), None)


def argument(call: ast.Call, position: int, keyword: str) -> ast.expr | None:
    """What a call is given at this place, or by this name; None where neither is written out in it."""
    first = call.args[: position + 1]
    if any(isinstance(arg, ast.Starred) for arg in first):
        return None
    return first[position] if len(first) > position else written(call, keyword)


def why_unseen(call: ast.Call, *names: str) -> str | None:
    """Why one of these keywords may be in a `**` argument of a call, as a clause; None where none can be."""
    open_ = [name for name in names if written(call, name) is None]
    keys = [key for word in call.keywords if word.arg is None for key in _keys(word.value)]
    if open_ and None in keys:
        return f"{open_[0]} may be in a ** argument of the call; write it out"
    hidden = next((name for name in open_ if name in keys), None)
    return None if hidden is None else f"{hidden} is in a ** argument of the call; write it out"


def _keys(mapping: ast.expr) -> list[object]:
    """What a mapping holds that is written out there; None stands for what cannot be seen."""
    keys = mapping.keys if isinstance(mapping, ast.Dict) else [None]
    return [key.value if isinstance(key, ast.Constant) else None for key in keys]
