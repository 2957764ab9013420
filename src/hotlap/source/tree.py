"""A source file as LibCST sees it, with the place of each node as offsets into the text."""

from collections.abc import Iterator

import libcst as cst
from libcst.metadata import (
    CodePosition,
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    WhitespaceInclusivePositionProvider,
)

from hotlap.record import CallSite
from hotlap.source.file import Refusal, SourceFile

Span = tuple[int, int]
"""Offsets of the first character and of the one behind the last."""

# A place as CPython writes it: line, end line, column, end column; columns in bytes.
_Key = tuple[int, int, int, int]

_STRINGS = (cst.SimpleString, cst.FormattedString)


class Tree:
    """The parsed file and the lookups that edits need. Nodes are compared by identity, as LibCST does."""

    def __init__(self, source: SourceFile) -> None:
        try:
            module = cst.parse_module(source.text)
            wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
            self._positions = wrapper.resolve(PositionProvider)
            self._outer = wrapper.resolve(WhitespaceInclusivePositionProvider)
            self._parents = wrapper.resolve(ParentNodeProvider)
        except cst.ParserSyntaxError as error:
            raise Refusal(f"it is not valid Python ({error.message} in line {error.raw_line})") from None
        except RecursionError:
            raise Refusal("it is nested too deeply") from None
        if module.code != source.text:
            raise Refusal("it was not read back as it is written")
        self.source = source
        self.module = module
        found = _Collector()
        module.visit(found)
        self._calls = self._index(found.calls)
        self._lines = found.lines
        self.strings: tuple[Span, ...] = tuple(self.span(node) for node in found.strings)
        """String literals: their lines must not be indented, and what goes into an f-string must not end it."""

    def span(self, node: cst.CSTNode) -> Span:
        """Where `node` is, without the parentheses and the space around it."""
        place = self._positions[node]
        return self._offset(place.start), self._offset(place.end)

    def outer(self, node: cst.CSTNode) -> Span:
        """Where `node` is, with the parentheses around it (and, for statements, with comments and the newline)."""
        place = self._outer[node]
        return self._offset(place.start), self._offset(place.end)

    def code(self, node: cst.CSTNode) -> str:
        """The text of `node`, without the parentheses around it."""
        start, end = self.span(node)
        return self.source.text[start:end]

    def parent(self, node: cst.CSTNode) -> cst.CSTNode:
        """The node that `node` is a part of."""
        return self._parents[node]

    def chain(self, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
        """(child, parent) from `node` up to the module."""
        while node is not self.module:
            parent = self.parent(node)
            yield node, parent
            node = parent

    def top_level(self, node: cst.CSTNode) -> int:
        """Index into the module's body of the statement that `node` is in."""
        child = next(child for child, parent in self.chain(node) if parent is self.module)
        return next(index for index, statement in enumerate(self.module.body) if statement is child)

    def call(self, site: CallSite) -> cst.Call:
        """The call at `site`.

        Raises:
            Refusal: none is there, or it cannot be told which.
        """
        found = self._calls.get((site.line, site.end_line, site.col, site.end_col), [])
        if len(found) != 1:
            raise Refusal(f"no single call of {site.calls} is at column {site.col + 1}")
        if isinstance(self.parent(found[0]), cst.Decorator):
            # The call in `@f(x)` and the call of what it returns are at the same place.
            raise Refusal("the call is a decorator")
        return found[0]

    def statements(self, site: CallSite) -> list[cst.BaseStatement]:
        """The statements of one block that `site` covers, from its first character to its last.

        Raises:
            Refusal: there are none, or it begins or ends within one.
        """
        span = self._span(site)
        first = next((line for line in self._lines if self.span(line)[0] == span[0]), None)
        block = self.parent(first) if first is not None else None
        body = block.body if isinstance(block, cst.Module | cst.IndentedBlock) else ()
        found = [part for part in body if span[0] <= self.span(part)[0] and self.span(part)[1] <= span[1]]
        if not found or (self.span(found[0])[0], self.span(found[-1])[1]) != span:
            raise Refusal("the statements do not have lines of their own")
        return found

    def _span(self, site: CallSite) -> Span:
        """Offsets of what a site covers, whose columns count bytes."""
        return self._at(site.line, site.col), self._at(site.end_line, site.end_col)

    def _at(self, line: int, col: int) -> int:
        starts, text = self.source.starts, self.source.text
        if not 1 <= line <= len(starts):
            raise Refusal("it has no such line")
        start = starts[line - 1]
        return start + len(text[start : self.source.line_end(start)].encode()[:col].decode(errors="ignore"))

    def _index(self, calls: list[cst.Call]) -> dict[_Key, list[cst.Call]]:
        found: dict[_Key, list[cst.Call]] = {}
        for call in calls:
            for key in self._keys(call):
                found.setdefault(key, []).append(call)
        return found

    def _keys(self, call: cst.Call) -> set[_Key]:
        """The places that CPython may give for a call."""
        start, end = (self.source.position(offset) for offset in self.span(call))
        keys = {(start[0], end[0], start[1], end[1])}
        if isinstance(call.func, cst.Attribute):
            # A method called on a later line than its object starts on is placed at its name (compile.c,
            # update_start_location_to_match_attr); CPython 3.12 and later then end it behind the name, too.
            name, behind = (self.source.position(offset) for offset in self.span(call.func.attr))
            if name[0] != start[0]:
                keys |= {(name[0], end[0], name[1], end[1]), (name[0], end[0], name[1], behind[1])}
        return keys

    def _offset(self, position: CodePosition) -> int:
        return self.source.offset(position.line, position.column)


def within(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`node` and all that it is made of, in the order of the text. (LibCST's matchers take 0.5 s to import.)"""
    yield node
    for child in node.children:
        yield from within(child)


class _Collector(cst.CSTVisitor):
    """Calls, lines of simple statements and string literals, in the order of the text."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[cst.Call] = []
        self.lines: list[cst.SimpleStatementLine] = []
        self.strings: list[cst.CSTNode] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Call):
            self.calls.append(node)
        elif isinstance(node, cst.SimpleStatementLine):
            self.lines.append(node)
        # By name: t-strings came with a later LibCST than the oldest that we take.
        if isinstance(node, _STRINGS) or type(node).__name__ == "TemplatedString":
            self.strings.append(node)
        return True
