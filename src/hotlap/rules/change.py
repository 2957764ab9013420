"""How a place in the script could read, and whether that code may be shown."""

import ast
import builtins
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from symtable import symtable

from hotlap.errors import UserError
from hotlap.record import Run
from hotlap.source import Script, scripts, snippet
from hotlap.source.names import bound


@dataclass(frozen=True, slots=True)
class Change:
    """A place in the script, and how it could read."""

    path: str = ""
    line: int | None = None
    """None: behind the imports."""
    before: str = ""
    """Whole lines, dedented; nothing where something is put in."""
    after: str = ""

    @property
    def where(self) -> str:
        """ "train.py:12"."""
        place = ", behind its imports" if self.line is None else f":{self.line}"
        return f"{file_name(self.path)}{place}" if self.path else ""

    def can_stand(self, run: Run) -> bool:
        """`after` is Python where it is to stand, binds and returns what `before` does, and reads no name that is bound
        nowhere it could see, unless it leaves something to be filled in (`...`). Of a file that cannot be read, as much
        as the lines themselves tell."""
        script = next((script for script in readable(run) if script.path == self.path), None)
        try:
            old, new = (self.before, self.after) if script is None else (script.text, self._applied(script))
            if _outcomes(old) - _outcomes(new):
                return False
            return script is None or "..." in self.after.split() or _unbound(new) <= {*_unbound(old), "torch"}
        except (SyntaxError, ValueError, RecursionError, IndexError):
            return False

    def _applied(self, script: Script) -> str:
        if not self.before or self.line is None:
            return f"{script.text}\n{self.after}"
        begin, ends = script.starts[self.line - 1], (*script.starts, len(script.text))
        end = ends[self.line + self.before.count("\n")]
        margin = script.text[begin : script.line_end(begin)].removesuffix(self.before.partition("\n")[0])
        return f"{script.text[:begin]}{textwrap.indent(self.after, margin)}\n{script.text[end:]}"


def readable(run: Run) -> Sequence[Script]:
    """The script's own files; none where one is missing or was changed since."""
    try:
        return scripts(run)
    except UserError:
        return ()


def file_name(path: str) -> str:
    """ "train.py" of its path, on any system. Beside slashes a backslash is part of a name (one that is not UTF-8)."""
    return path.rpartition("/" if "/" in path else "\\")[2]


def _outcomes(text: str) -> Counter[str]:
    """What is bound and returned there, and how often."""
    found = Counter[str]()
    for node in ast.walk(snippet.parse(text)):
        found.update(("return",) if isinstance(node, ast.Return) else bound(node))
    return found


def _unbound(text: str) -> set[str]:
    """Names that are read, and bound nowhere that the reader could see."""
    tables = [symtable(text, "", "exec")]
    for table in tables:
        tables += table.get_children()
    names = [one for table in tables for one in table.get_symbols() if one.is_global() or table is tables[0]]
    known = {one.get_name() for one in names if one.is_assigned() or one.is_imported() or one.is_namespace()}
    return {one.get_name() for one in names if one.is_referenced()} - known - vars(builtins).keys()
