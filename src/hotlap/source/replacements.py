"""Edits that put code in the place of a call, or in front of its statement -> splices."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from hotlap.source import snippet
from hotlap.source.edits import InsertBefore, ReplaceCall, Replacement, ReplaceStatements
from hotlap.source.file import Refusal
from hotlap.source.names import Names
from hotlap.source.splices import Rank, Splice, insert, line_break
from hotlap.source.tree import Span, Tree, within


@dataclass(slots=True)
class Replacements:
    """What is to be put in the place of calls, and in front of statements, in one file."""

    tree: Tree
    _replaced: dict[cst.Call, str] = field(default_factory=dict)
    _before: dict[cst.BaseSmallStatement, list[str]] = field(default_factory=dict)
    _lines: dict[Span, str] = field(default_factory=dict)

    def plan(self, edit: Replacement, names: Names) -> None:
        """Plan one edit."""
        match edit:
            case ReplaceCall():
                self._replace(edit, self.tree.call(edit.site), names)
            case ReplaceStatements():
                self._replace_lines(edit, names)
            case InsertBefore():
                self._put_before(edit, self.tree.call(edit.site), names)

    def splices(self) -> Iterator[Splice]:
        """All that was planned."""
        for call, code in self._replaced.items():
            start, end = self.tree.span(call)
            yield Splice(start, end, code)
        for (start, end), code in self._lines.items():
            yield Splice(start, end, code)
        for statement, lines in self._before.items():
            line = self.tree.parent(statement)
            assert isinstance(line, cst.SimpleStatementLine)
            first = self.tree.span(line.body[0])[0]
            number = self.tree.source.position(first)[0]
            margin = self.tree.source.text[self.tree.source.starts[number - 1] : first]
            if statement is not line.body[0]:
                yield line_break(self.tree, statement, margin, mark=";")
            yield insert(self.tree.span(statement)[0], "".join(f"{code}\n{margin}" for code in lines), Rank.BEFORE)

    def _replace(self, edit: ReplaceCall, call: cst.Call, names: Names) -> None:
        if not snippet.is_value(edit.code):
            raise ValueError(f"not an expression: {edit.code!r}")
        code = snippet.renamed(edit.code, names.spelled(edit.imports))
        if snippet.same(self.tree.code(call), code):
            return
        names.use(edit.imports)
        if self._replaced.setdefault(call, code) != code:
            raise Refusal(f"two changes want different calls, {self._replaced[call]} and {code}")

    def _replace_lines(self, edit: ReplaceStatements, names: Names) -> None:
        code = snippet.renamed(edit.code, names.spelled(edit.imports))
        found = self.tree.statements(edit.site)
        start, end = self.tree.span(found[0])[0], self.tree.span(found[-1])[1]
        margin = self.tree.source.text[self.tree.source.starts[edit.site.line - 1] : start]
        # Those above the first statement, and behind the last one, stay where they are.
        comments = [node for part in found for node in within(part) if isinstance(node, cst.Comment)]
        inner = [comment.value for comment in comments if start < self.tree.span(comment)[0] < end]
        names.use(edit.imports)
        text = f"\n{margin}".join([*inner, *code.split("\n")])
        if self._lines.setdefault((start, end), text) != text:
            raise Refusal("two changes want different statements here")

    def _put_before(self, edit: InsertBefore, call: cst.Call, names: Names) -> None:
        code = snippet.renamed(edit.code, names.spelled(edit.imports))
        (wanted,) = snippet.statements(code)
        statement, block = self._place(call)
        if wanted in self._in_front(statement, block):
            return
        names.use(edit.imports)
        planned = self._before.setdefault(statement, [])
        if code not in planned:
            planned.append(code)

    def _place(self, call: cst.Call) -> tuple[cst.BaseSmallStatement, cst.Module | cst.IndentedBlock]:
        """The statement that makes the call, on a line that holds nothing else of a block, and the block it is in."""
        for child, parent in self.tree.chain(call):
            if isinstance(parent, cst.Lambda | cst.BaseCompoundStatement):
                break
            if isinstance(child, cst.BaseSmallStatement) and isinstance(parent, cst.SimpleStatementLine):
                block = self.tree.parent(parent)
                if isinstance(block, cst.Module | cst.IndentedBlock):
                    return child, block
                break
        raise Refusal("the call is in a statement that has no line of its own; give it one")

    def _in_front(self, statement: cst.BaseSmallStatement, block: cst.Module | cst.IndentedBlock) -> list[str]:
        """The statements of the block in front of this one, in one spelling."""
        found: list[str] = []
        lines = [line for line in block.body if isinstance(line, cst.SimpleStatementLine)]
        for part in (part for line in lines for part in line.body):
            if part is statement:
                break
            found += [ast.dump(node) for node in snippet.parse(self.tree.code(part)).body]
        return found
