"""Edits of the statement around a call -> splices."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from hotlap.source import snippet
from hotlap.source.edits import WrapStatement
from hotlap.source.file import NEWLINE, Refusal
from hotlap.source.names import Names
from hotlap.source.splices import Rank, Shift, Splice, insert, line_break
from hotlap.source.tree import Tree, within

_Line = cst.SimpleStatementLine | cst.SimpleStatementSuite


@dataclass(slots=True)
class Statements:
    """What is to become of the statements around calls in one file."""

    tree: Tree
    _headers: dict[cst.BaseSmallStatement, list[str]] = field(default_factory=dict)
    """`with` headers around a statement, the outermost first."""
    _suffixes: dict[cst.Call, list[str]] = field(default_factory=dict)

    def wrap(self, edit: WrapStatement, call: cst.Call, names: Names) -> None:
        """Plan a `WrapStatement`."""
        statement = _statement(self.tree, call)
        if any(map(_gives_up_control, within(statement))):
            raise Refusal("the statement gives up control in its middle (yield or await), and the `with` would stay on")
        if edit.suffix and _is_target(self.tree, call):
            raise Refusal("the call is in the target of an assignment")
        names_here = names.spelled(edit.imports)
        header = snippet.renamed(f"{edit.header}: pass", names_here).removesuffix(": pass")
        suffix = snippet.renamed(f"_{edit.suffix}", names_here)[1:]
        present = _enclosing_items(self.tree, statement)
        if not all(item in present for item in snippet.with_items(header)):
            names.use(edit.imports)
            _note(self._headers.setdefault(statement, []), header)
        if suffix and not self._has_suffix(call, suffix):
            names.use(edit.imports)
            _note(self._suffixes.setdefault(call, []), suffix)

    def splices(self) -> Iterator[Splice]:
        """All that was planned, the lines that become indented aside."""
        for call, suffixes in self._suffixes.items():
            yield insert(self.tree.span(call)[1], "".join(suffixes), Rank.SUFFIX)
        for statement, headers in self._headers.items():
            yield from self._breaks(statement)
            indent, unit = self._indent(statement), self._unit(statement)
            lines = [f"{header}:\n{indent}{unit * (depth + 1)}" for depth, header in enumerate(headers)]
            yield insert(self.tree.span(statement)[0], "".join(lines), Rank.HEADER)
        for shift in self.shifts():
            yield from self._shift_splices(shift)

    def shifts(self) -> Iterator[Shift]:
        """The spans of the statements that move to the right."""
        for statement, headers in self._headers.items():
            yield Shift(self.tree.span(statement), self._unit(statement) * len(headers))

    def _shift_splices(self, shift: Shift) -> Iterator[Splice]:
        """The lines that a statement goes on in. Those within strings stay; so do empty ones."""
        text = self.tree.source.text
        for newline in NEWLINE.finditer(text, *shift.span):
            at = newline.end()
            in_string = any(start < at < end for start, end in self.tree.strings)
            if not in_string and at < len(text) and text[at] not in "\r\n":
                yield insert(at, shift.indent, Rank.SHIFT)

    def _breaks(self, statement: cst.BaseSmallStatement) -> Iterator[Splice]:
        """New lines in place of what parts the statement from its neighbours on the same line."""
        line = _line(self.tree, statement)
        place = next(index for index, found in enumerate(line.body) if found is statement)
        indent = self._indent(statement)
        if isinstance(line, cst.SimpleStatementSuite):
            yield line_break(self.tree, line.body[0], indent, mark="")
        for found in line.body[max(place, 1) : place + 2]:
            yield line_break(self.tree, found, indent, mark=";")

    def _indent(self, statement: cst.BaseSmallStatement) -> str:
        """The space in front of the statement, in front of which it may have to be brought first."""
        indent = ""
        for _, parent in self.tree.chain(statement):
            if isinstance(parent, cst.IndentedBlock | cst.SimpleStatementSuite):
                indent = self._unit(parent) + indent
        return indent

    def _unit(self, node: cst.CSTNode) -> str:
        """By how much the block around `node` is indented; by what the file does elsewhere, if that cannot be seen."""
        blocks = (node, *(parent for _, parent in self.tree.chain(node)))
        own = next((block.indent for block in blocks if isinstance(block, cst.IndentedBlock)), None)
        return self.tree.module.default_indent if own is None else own

    def _has_suffix(self, call: cst.Call, suffix: str) -> bool:
        """The suffix stands behind the call already."""
        behind = self.tree.source.text[self.tree.span(call)[1] :]
        return re.match(re.escape(suffix) + (r"(?!\w)" if suffix[-1].isidentifier() else ""), behind) is not None


def _note(some: list[str], text: str) -> None:
    if text not in some:
        some.append(text)


def _line(tree: Tree, statement: cst.BaseSmallStatement) -> _Line:
    parent = tree.parent(statement)
    assert isinstance(parent, _Line)
    return parent


def _statement(tree: Tree, call: cst.Call) -> cst.BaseSmallStatement:
    """The simple statement that makes the call, while it runs."""
    for child, parent in tree.chain(call):
        if isinstance(parent, _Line) and isinstance(child, cst.BaseSmallStatement):
            return child
        if isinstance(parent, cst.Lambda):
            raise Refusal("the call is in a lambda, which runs at another time than the statement around it")
        if isinstance(parent, cst.GeneratorExp) and not _is_first_iterable(tree, call, parent):
            raise Refusal("the call is in a generator expression, which may run at another time than the statement")
        if isinstance(parent, cst.BaseCompoundStatement):
            break
    raise Refusal("the call is in the header of a compound statement; give it a line of its own")


def _is_first_iterable(tree: Tree, call: cst.Call, generator: cst.GeneratorExp) -> bool:
    """What a generator expression goes over first is made when it is made."""
    start, end = tree.outer(generator.for_in.iter)
    inner = tree.span(call)
    return start <= inner[0] and inner[1] <= end


def _gives_up_control(node: cst.CSTNode) -> bool:
    asynchronous = isinstance(node, cst.CompFor) and node.asynchronous is not None
    return asynchronous or isinstance(node, cst.Yield | cst.Await)


def _is_target(tree: Tree, call: cst.Call) -> bool:
    for child, parent in tree.chain(call):
        if isinstance(parent, cst.AssignTarget | cst.Del):
            return True
        if isinstance(parent, cst.AugAssign | cst.AnnAssign | cst.CompFor) and child is parent.target:
            return True
        if isinstance(child, cst.BaseSmallStatement):
            break
    return False


def _enclosing_items(tree: Tree, statement: cst.BaseSmallStatement) -> list[str]:
    """The items of all `with` statements around it, up to the function that it is in."""
    items: list[str] = []
    for _, parent in tree.chain(statement):
        if isinstance(parent, cst.FunctionDef | cst.ClassDef):
            break
        if isinstance(parent, cst.With) and parent.asynchronous is None:
            for item in parent.items:
                start, end = tree.outer(item.item)
                behind = f" as {tree.code(item.asname.name)}" if item.asname else ""
                items += snippet.with_items(f"with {tree.source.text[start:end]}{behind}")
    return items
