"""A source file of the user's as the levers read it: what is called where, by full name."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from hotlap.record import CallSite, Run
from hotlap.source import snippet
from hotlap.source.file import read
from hotlap.source.names import bindings, bound

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(slots=True, eq=False)
class Script:
    """One file, parsed. What a name stands for is followed through imports only, so an answer is sure or missing."""

    path: str
    sha256: str
    text: str
    tree: ast.Module
    _parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    _calls: list[ast.Call] = field(default_factory=list)
    """In the order of the text."""
    _names: dict[str, set[str]] = field(default_factory=dict)
    """Name -> what imports bind it to, anywhere in the file; "" where something else binds it."""

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                self._calls.append(node)
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node
            for found in bindings(node):
                self._names.setdefault(found.name, set()).add(found.target)
            for name in bound(node):
                self._names.setdefault(name, set()).add("")
        self._calls.sort(key=lambda call: (call.lineno, call.col_offset))

    def full_name(self, node: ast.expr) -> str | None:
        """`F.relu` -> "torch.nn.functional.relu"; None for what is not reached by attributes of an import."""
        if isinstance(node, ast.Attribute):
            owner = self.full_name(node.value)
            return None if owner is None else f"{owner}.{node.attr}"
        targets = self._names.get(node.id, set()) if isinstance(node, ast.Name) else set()
        return next(iter(targets)) if len(targets) == 1 and "" not in targets else None

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Calls of these functions, by full name, in the order of the text."""
        for call in self._calls:
            if self.full_name(call.func) in names:
                yield call

    def methods(self, name: str) -> Iterator[ast.Call]:
        """Calls of the form `something.name(...)`, whatever the something is, in the order of the text."""
        for call in self._calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr == name:
                yield call

    def all_calls(self) -> Iterator[ast.Call]:
        """In the order of the text."""
        return iter(self._calls)

    def at(self, site: CallSite) -> ast.Call | None:
        """The call that was recorded as `site`; None where it cannot be told."""
        if site.path != self.path:
            return None
        spans = [call for call in self._calls if (call.end_lineno, call.end_col_offset) == _end(site)]
        exact = [call for call in spans if (call.lineno, call.col_offset) == (site.line, site.col)]
        return exact[0] if len(exact) == 1 else None

    def site(self, call: ast.expr, *, calls: str) -> CallSite:
        """Where a call (or a name) is."""
        return CallSite(
            calls=calls,
            path=self.path,
            sha256=self.sha256,
            line=call.lineno,
            end_line=call.end_lineno or call.lineno,
            col=call.col_offset,
            end_col=call.end_col_offset or call.col_offset,
        )

    def code(self, node: ast.expr | ast.stmt) -> str:
        """The text of an expression, or of a statement."""
        return ast.get_source_segment(self.text, node) or ast.unparse(node)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """What `node` is in, from the inside out."""
        while node in self._parents:
            node = self._parents[node]
            yield node

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class that `node` is in."""
        return next((outer for outer in self.around(node) if isinstance(outer, ast.ClassDef)), None)

    def block_of(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements among which one stands."""
        fields = (value for _, value in ast.iter_fields(next(self.around(statement))))
        return next(value for value in fields if isinstance(value, list) and statement in value)

    def scope(self, node: ast.AST) -> Function | ast.ClassDef | ast.Module:
        """The innermost function (or class, or module) that `node` is in."""
        for outer in self.around(node):
            if isinstance(outer, Function | ast.ClassDef | ast.Module):
                return outer
        return self.tree


def is_name(node: ast.expr) -> bool:
    """A name, or attributes of one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def scripts(run: Run) -> list[Script]:
    """The user's source files that the run loaded, the main script first; those that are not valid Python left out.

    Raises:
        UserError: a file is missing or changed since.
    """
    found = (parsed(path, sha256, read(path, sha256=sha256).text) for path, sha256 in run.sources.items())
    return [script for script in found if script is not None]


@lru_cache(maxsize=1024)
def parsed(path: str, sha256: str, text: str) -> Script | None:
    """A file's text, parsed; None where it is not valid Python. (Every lever asks for all files, several times.)"""
    try:
        tree = snippet.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    return Script(path=path, sha256=sha256, text=text, tree=tree)


def _end(site: CallSite) -> tuple[int, int]:
    return site.end_line, site.end_col
