"""Where at the top of a file new statements go."""

import ast
import itertools
import sys
from pathlib import Path

from hotlap.source import snippet
from hotlap.source.file import NEWLINE
from hotlap.source.names import bindings, bound_behind
from hotlap.source.script import Script

# Sections of imports, as isort orders them: Python's own, those of others, those of the same project.
_OTHERS, _OWN = 1, 2

_Key = tuple[int, bool, str]
"""(section, `from` import, module): the order of import statements."""

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

    def import_splice(self, place: int, statement: str, path: str) -> tuple[int, str]:
        """Where an import goes that may stand behind `place` or, in the same run of imports, in front of it: in its
        order among those of other packages, where they are in order. (Offset, the line with empty ones around it.)"""
        first = place + 1
        plain = (ast.Import, ast.ImportFrom)
        while first > max(self._head + 1, 0) and all(
            isinstance(node, plain) and node.names[0].name != "*" for node in self._lines[first - 1]
        ):
            first -= 1
        keys = [_import_key(self._lines[index][0], path) for index in range(first, place + 1)]
        new = _import_key(snippet.parse(statement).body[0], path)
        # What is not in order may be so for a reason: then it goes no further to the front than the last of others.
        in_order = [*keys] == sorted(keys)
        behind = [at for at, key in enumerate(keys, first) if (key <= new if in_order else key[0] <= _OTHERS)]
        at = max(behind, default=first - 1 if in_order else place)
        star = self._lines[at][0] if self._head < at < first else None
        if isinstance(star, ast.ImportFrom) and new < _import_key(star, path):
            statement = f"\n# isort: split\n{statement}"  # in front of it, what it brings could take its place
        above, below = (keys[one - first][0] if first <= one <= place else None for one in (at, at + 1))
        if below == new[0] != above:
            return self._above_comments(self._lines[at + 1][0].lineno - 1), f"{statement}\n"
        offset, text = self.offset(at), self._script.text
        parts = (in_order and above not in (None, new[0])) or (at >= 0 and isinstance(self._lines[at][-1], ast.Try))
        ends = in_order and below not in (None, new[0]) and text[offset] not in "\r\n"
        return offset, "\n" * parts + f"{statement}\n" + "\n" * ends

    def _above_comments(self, line: int) -> int:
        """The offset of the first of the comments right above a line (from 0), or of the line itself."""
        starts, text = self._script.starts, self._script.text
        while line and text[starts[line - 1] : starts[line]].startswith("#"):
            line -= 1
        return starts[line]

    def _head_lines(self) -> int:
        """Number of leading statements that have to stay first."""
        docstring = self._script.tree.body[:1] if ast.get_docstring(self._script.tree, clean=False) is not None else ()
        for index, nodes in enumerate(self._lines):
            if not all(_is_future(node) or node in docstring for node in nodes):
                return index
        return len(self._lines)

    def _binds(self, index: int) -> set[str]:
        """Names that are imported by the statement itself, or a `try` that ends the script without them."""
        return {one.name for node in self._lines[index] if not _is_future(node) for one in bound_behind(node)}

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
        """The number of lines up to the last of the comments that the file begins with: of these one may be its
        shebang, and one may declare its encoding."""
        lines = (line.strip() for line in NEWLINE.split(self._script.text))
        head = itertools.takewhile(lambda line: not line or line.startswith("#"), lines)
        return max((number for number, line in enumerate(head, 1) if line), default=0)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__" and node.level == 0


def _import_key(node: ast.stmt, path: str) -> _Key:
    assert isinstance(node, ast.Import | ast.ImportFrom)
    if isinstance(node, ast.Import):
        return _section(node.names[0].name, path), False, node.names[0].name.lower()
    module = node.module or ""
    return (_OWN + 1 if node.level else _section(module, path)), True, module.lower()


def _section(module: str, path: str) -> int:
    """Of what stands beside the script, or beside a folder that it is in: the project's own."""
    root = module.partition(".")[0]
    if root in sys.stdlib_module_names:
        return 0
    beside = (folder / name for folder in Path(path).parents[:3] for name in (root, f"{root}.py", f"src/{root}"))
    return _OTHERS if root == "hotlap" or not any(one.exists() for one in beside) else _OWN


def _is_set_up(node: ast.stmt, standard: set[str]) -> bool:
    """A simple statement that reads nothing but the standard library, or a block of imports."""
    if isinstance(node, ast.If | ast.Try):
        inner = [part for part in ast.walk(node) if isinstance(part, ast.stmt) and part is not node]
        return all(isinstance(part, _IN_BLOCKS) or _is_set_up(part, standard) for part in inner)
    if not isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr):
        return False
    read = {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)}
    return read <= standard | {"__file__", "__name__", "str", "int", "float"}
