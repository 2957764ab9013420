"""Where at the top of a file new statements go."""

import ast
import re
import sys
from collections.abc import Sequence

import libcst as cst

from hotlap.source import snippet
from hotlap.source.names import bindings
from hotlap.source.tree import Tree

# PEP 263: such a comment counts in the first two lines only, so it has to stay there.
_CODING = re.compile(r"[ \t\f]*#.*?coding[:=]")

# What a block that chooses between imports is made of.
_IN_BLOCKS = (ast.Import, ast.ImportFrom, ast.Assign, ast.Pass, ast.Raise)


class Layout:
    """The top of a file. Places are indices of top-level statements: "behind this one"; -1 is before all others."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._body = tree.module.body
        self._asts = [_parsed(tree, statement) for statement in self._body]
        self.head = self._head() - 1
        """The last of docstring and `from __future__` imports."""

    def last_import(self, *, before: int) -> int:
        """The last import above the top-level statement `before`, else the head."""
        return max((index for index in range(before) if self._binds(index)), default=self.head)

    def section_end(self, names: frozenset[str]) -> int:
        """The end of the section of imports at the top; if `names` are imported later, the end of that section."""
        place = self._run(self.head)
        behind = [index for index in range(place + 1, len(self._body)) if names & self._binds(index)]
        missing = names - {name for index in range(place + 1) for name in self._binds(index)}
        return self._run(behind[0]) if missing and behind else place

    def last_line(self, place: int) -> int:
        """The line that the statement at `place` ends in; 0 before all."""
        return self._tree.source.position(self._tree.span(self._body[place])[1])[0] if place >= 0 else 0

    def offset(self, place: int) -> int:
        """Where text behind `place` is inserted: at the start of a line, or at the end of a file without newline."""
        if place >= 0:
            return self._tree.outer(self._body[place])[1]
        return self._behind_comments()

    def holds(self, code: str) -> bool:
        """The statements of `code` are there already, one behind the other."""
        wanted = snippet.statements(code)
        found = [ast.dump(node) for nodes in self._asts for node in nodes]
        return any(found[index : index + len(wanted)] == wanted for index in range(len(found)))

    def _head(self) -> int:
        """Number of leading statements that have to stay first."""
        for index, nodes in enumerate(self._asts):
            if not all(_is_future(node) or (index == 0 and _is_docstring(node)) for node in nodes):
                return index
        return len(self._asts)

    def _binds(self, index: int) -> set[str]:
        """Names that are imported by the statement itself (not somewhere within a compound one)."""
        return {binding.name for node in self._asts[index] if not _is_future(node) for binding in bindings(node)}

    def _run(self, place: int) -> int:
        """The last import that follows `place`, over nothing but imports and settings of the standard library.

        So `os.environ[...] = ...` and `sys.path.append(...)` keep their place before the imports that they are for.
        """
        standard: set[str] = set()
        for index in range(place + 1, len(self._body)):
            nodes = self._asts[index]
            if self._binds(index):
                place = index
            elif not all(_is_set_up(node, standard) for node in nodes):
                break
            standard |= {
                binding.name
                for node in nodes
                for binding in bindings(node)
                if binding.target.split(".")[0] in sys.stdlib_module_names
            }
        return place

    def _behind_comments(self) -> int:
        """Behind the shebang, the declared encoding, and a block of comments that an empty line ends."""
        starts, text = self._tree.source.starts, self._tree.source.text
        lines = [text[start:end].strip() for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
        fixed = [i for i, line in enumerate(lines[:2]) if (i == 0 and line.startswith("#!")) or _CODING.match(line)]
        block = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
        if block < len(lines) and lines[block] == "":
            fixed.append(block - 1)
        line = max(fixed, default=-1) + 1
        return starts[line] if line < len(starts) else len(text)


def _parsed(tree: Tree, statement: cst.CSTNode) -> Sequence[ast.stmt]:
    """A top-level statement (or several on one line) as `ast` has it."""
    start, end = tree.outer(statement)
    return snippet.parse(tree.source.text[start:end]).body


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__" and node.level == 0


def _is_set_up(node: ast.stmt, standard: set[str]) -> bool:
    """A simple statement that reads nothing but the standard library, or a block of imports."""
    if isinstance(node, ast.If | ast.Try):
        inner = [part for part in ast.walk(node) if isinstance(part, ast.stmt) and part is not node]
        return all(isinstance(part, _IN_BLOCKS) or _is_set_up(part, standard) for part in inner)
    if not isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr):
        return False
    read = {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)}
    return read <= standard | {"__file__", "__name__", "str", "int", "float"}
