"""Where at the top of a file new statements go."""

import ast
import re
import sys

from hotlap.source import snippet
from hotlap.source.file import NEWLINE
from hotlap.source.names import bindings
from hotlap.source.script import Script

# PEP 263: such a comment counts in the first two lines only, so it has to stay there.
_CODING = re.compile(r"[ \t\f]*#.*?coding[:=]")

# What a block that chooses between imports is made of.
_IN_BLOCKS = (ast.Import, ast.ImportFrom, ast.Assign, ast.Pass, ast.Raise)


class Layout:
    """The top of a file. Places are indices of top-level lines of statements: "behind this one"; -1 is before all."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._lines: list[list[ast.stmt]] = []
        for node in script.tree.body:
            if self._lines and node.lineno == self._lines[-1][-1].end_lineno:
                self._lines[-1].append(node)
            else:
                self._lines.append([node])
        self._head = self._head_lines() - 1
        """The last of docstring and `from __future__` imports."""

    def places(self, *, first_edit: int, names: frozenset[str] | None) -> tuple[int, int]:
        """Behind which lines imports go, and statements that need `names` (None: there are none).

        Imports are in front of all that needs them: what is edited, from offset `first_edit` on, and the statements.
        """
        code = self._section_end(names or frozenset())
        before = sum(self._script.span(line[-1])[1] <= first_edit for line in self._lines)
        imports = max((index for index in range(before) if self._binds(index)), default=self._head)
        return (imports if names is None else min(imports, code)), code

    def _section_end(self, names: frozenset[str]) -> int:
        """The end of the section of imports at the top; if `names` are imported later, the end of that section."""
        place = self._run(self._head)
        behind = [index for index in range(place + 1, len(self._lines)) if names & self._binds(index)]
        missing = names - {name for index in range(place + 1) for name in self._binds(index)}
        return self._run(behind[0]) if missing and behind else place

    def last_line(self, place: int) -> int:
        """The number of the line of text that the place is behind; 0 before all."""
        return self._lines[place][-1].end_lineno or 0 if place >= 0 else 0

    def offset(self, place: int) -> int:
        """Where text behind `place` is inserted: at the start of a line, or at the end of a file without newline."""
        starts, line = self._script.starts, self.last_line(place) if place >= 0 else self._behind_comments()
        return starts[line] if line < len(starts) else len(self._script.text)

    def holds(self, code: str) -> bool:
        """The statements of `code` are there already, one behind the other."""
        wanted = snippet.statements(code)
        found = [ast.dump(node) for node in self._script.tree.body]
        return any(found[index : index + len(wanted)] == wanted for index in range(len(found)))

    def _head_lines(self) -> int:
        """Number of leading statements that have to stay first."""
        for index, nodes in enumerate(self._lines):
            if not all(_is_future(node) or (index == 0 and _is_docstring(node)) for node in nodes):
                return index
        return len(self._lines)

    def _binds(self, index: int) -> set[str]:
        """Names that are imported by the statement itself (not somewhere within a compound one)."""
        return {binding.name for node in self._lines[index] if not _is_future(node) for binding in bindings(node)}

    def _run(self, place: int) -> int:
        """The last import that follows `place`, over nothing but imports and settings of the standard library.

        So `os.environ[...] = ...` and `sys.path.append(...)` keep their place before the imports that they are for.
        """
        standard: set[str] = set()
        for index in range(place + 1, len(self._lines)):
            nodes = self._lines[index]
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
        """The number of lines of a shebang, the declared encoding, and a block of comments that an empty line ends."""
        lines = [line.strip() for line in NEWLINE.split(self._script.text)]
        fixed = [i for i, line in enumerate(lines[:2]) if (i == 0 and line.startswith("#!")) or _CODING.match(line)]
        block = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
        if block < len(lines) and lines[block] == "":
            fixed.append(block - 1)
        return max(fixed, default=-1) + 1


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
