"""Edits that put code in the place of a call, or beside its statement -> splices."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from hotlap.source import snippet
from hotlap.source.edits import InsertBefore, InsertBehind, ReplaceCall, Replacement, ReplaceStatements
from hotlap.source.file import NEWLINE, Refusal
from hotlap.source.names import Names
from hotlap.source.splices import Rank, Splice, insert, line_break
from hotlap.source.tree import Span, Tree, within


@dataclass(slots=True)
class Replacements:
    """What is to be put in the place of calls, and beside statements, in one file."""

    tree: Tree
    _replaced: dict[cst.Call, str] = field(default_factory=dict)
    _before: dict[cst.BaseSmallStatement, list[str]] = field(default_factory=dict)
    _behind: dict[cst.BaseSmallStatement, list[str]] = field(default_factory=dict)
    _lines: dict[Span, str] = field(default_factory=dict)

    def plan(self, edit: Replacement, names: Names) -> None:
        """Plan one edit."""
        match edit:
            case ReplaceCall():
                self._replace(edit, self.tree.call(edit.site), names)
            case ReplaceStatements():
                self._replace_lines(edit, names)
            case InsertBefore() | InsertBehind():
                self._put_beside(edit, self.tree.call(edit.site), names)

    def splices(self) -> Iterator[Splice]:
        """All that was planned."""
        for call, code in self._replaced.items():
            start, end = self.tree.span(call)
            yield Splice(start, end, code)
        for (start, end), code in self._lines.items():
            yield Splice(start, end, code)
        for statement, lines in self._before.items():
            line, margin = self._line(statement)
            if statement is not line.body[0]:
                yield line_break(self.tree, statement, margin, mark=";")
            yield insert(self.tree.span(statement)[0], "".join(f"{code}\n{margin}" for code in lines), Rank.BEFORE)
        for statement, lines in self._behind.items():
            line, margin = self._line(statement)
            # What stands behind it on its line is a comment, which stays there.
            newline = NEWLINE.search(self.tree.source.text, self.tree.span(line)[1])
            offset = len(self.tree.source.text) if newline is None else newline.start()
            yield insert(offset, "".join(f"\n{margin}{code}" for code in lines), Rank.SUFFIX)

    def _line(self, statement: cst.BaseSmallStatement) -> tuple[cst.SimpleStatementLine, str]:
        """Its line, and the space in front of that."""
        line = self.tree.parent(statement)
        assert isinstance(line, cst.SimpleStatementLine)
        first = self.tree.span(line.body[0])[0]
        number = self.tree.source.position(first)[0]
        return line, self.tree.source.text[self.tree.source.starts[number - 1] : first]

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

    def _put_beside(self, edit: InsertBefore | InsertBehind, call: cst.Call, names: Names) -> None:
        code = snippet.renamed(edit.code, names.spelled(edit.imports))
        (wanted,) = snippet.statements(code)
        statement, block = self._place(call)
        behind = isinstance(edit, InsertBehind)
        if wanted in self._beside(statement, block, behind=behind):
            return
        names.use(edit.imports)
        (line, _), planned = self._line(statement), self._before
        if behind and statement is not line.body[-1]:
            at = next(at for at, part in enumerate(line.body) if part is statement)
            statement = line.body[at + 1]
        elif behind:
            planned = self._behind
        codes = planned.setdefault(statement, [])
        if code not in codes:
            codes.append(code)

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

    def _beside(
        self, statement: cst.BaseSmallStatement, block: cst.Module | cst.IndentedBlock, *, behind: bool
    ) -> list[str]:
        """The statements of the block in front of this one, or behind it, in one spelling."""
        lines = [line for line in block.body if isinstance(line, cst.SimpleStatementLine)]
        parts = [part for line in lines for part in line.body]
        at = next(at for at, part in enumerate(parts) if part is statement)
        some = parts[at + 1 :] if behind else parts[:at]
        return [ast.dump(node) for part in some for node in snippet.parse(self.tree.code(part)).body]
