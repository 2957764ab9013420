"""A source file of the user's as the levers read it: what is called where, by full name."""

import ast
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TypeGuard

from hotlap.record import CallSite, Run
from hotlap.source import snippet
from hotlap.source.file import NEWLINE, read
from hotlap.source.names import bindings, bound

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

Span = tuple[int, int]
"""Offsets of the first character and of the one behind the last."""

Place = tuple[int, int, int, int]
"""As CPython writes it: line, end line, column, end column; columns in bytes of UTF-8."""

# In names of devices; "rank" is the index of a card.
_SAYS_DEVICE = ("dev", "gpu", "cuda", "rank")
_SAYS_HOST = ("cpu", "host")


@dataclass(eq=False)
class Script:
    """One file, parsed. What a name stands for is followed through imports only, so an answer is sure or missing."""

    path: str
    sha256: str
    text: str
    tree: ast.Module
    names: dict[str, set[str]] = field(default_factory=dict)
    """Name -> what imports bind it to, anywhere in the file; "" where something else binds it."""
    all_calls: list[ast.Call] = field(default_factory=list)
    """In the order of the text."""
    _parents: dict[ast.AST, ast.AST] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                self.all_calls.append(node)
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node
            for found in bindings(node):
                self.names.setdefault(found.name, set()).add(found.target)
            for name in bound(node):
                self.names.setdefault(name, set()).add("")
        self.all_calls.sort(key=lambda call: (call.lineno, call.col_offset))

    def full_name(self, node: ast.expr) -> str | None:
        """`F.relu` -> "torch.nn.functional.relu"; None for what is not reached by attributes of an import."""
        if isinstance(node, ast.Attribute):
            owner = self.full_name(node.value)
            return None if owner is None else f"{owner}.{node.attr}"
        targets = self.names.get(node.id, set()) if isinstance(node, ast.Name) else set()
        return next(iter(targets)) if len(targets) == 1 and "" not in targets else None

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Calls of these functions, by full name, in the order of the text."""
        return (call for call in self.all_calls if self.full_name(call.func) in names)

    def methods(self, name: str) -> Iterator[ast.Call]:
        """Calls of the form `something.name(...)`, whatever the something is, in the order of the text."""
        return (call for call in self.all_calls if isinstance(call.func, ast.Attribute) and call.func.attr == name)

    def at(self, site: CallSite) -> ast.Call | None:
        """The call that was recorded as `site`; None where it cannot be told."""
        if site.path != self.path:
            return None
        found = self._places.get((site.line, site.end_line, site.col, site.end_col), [])
        return found[0] if len(found) == 1 else None

    def site(self, call: ast.Call, *, calls: str) -> CallSite:
        """Where a call is."""
        line, end_line, col, end_col = place_of(call)
        return CallSite(
            calls=calls, path=self.path, sha256=self.sha256, line=line, end_line=end_line, col=col, end_col=end_col
        )

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> Span:
        """Where a node is in the text, without the parentheses around it."""
        line, end_line, col, end_col = place_of(node)
        return self._offset(line, col), self._offset(end_line, end_col)

    def code(self, node: ast.expr | ast.stmt) -> str:
        """The text of an expression, or of a statement."""
        return self.text[slice(*self.span(node))]

    def line_start(self, offset: int) -> int:
        """Offset of the first character of the line that `offset` is on."""
        return self.starts[bisect_right(self.starts, offset) - 1]

    def line_end(self, offset: int) -> int:
        """Offset of the end of the line that `offset` is on, in front of its newline."""
        match = NEWLINE.search(self.text, offset)
        return match.start() if match else len(self.text)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """What `node` is in, from the inside out."""
        while node in self._parents:
            node = self._parents[node]
            yield node

    def spelled(self, *words: str) -> ast.AST | None:
        """Something in it that is called by one of these words, as `word_of` has it; None where nothing is."""
        return next((node for node in ast.walk(self.tree) if word_of(node) in words), None)

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

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Offset of each line's first character."""
        return (0, *(match.end() for match in NEWLINE.finditer(self.text)))

    @cached_property
    def _places(self) -> dict[Place, list[ast.Call]]:
        found: dict[Place, list[ast.Call]] = {}
        for call in self.all_calls:
            for place in _recorded(call):
                found.setdefault(place, []).append(call)
        return found

    def _offset(self, line: int, col: int) -> int:
        start = self.starts[line - 1]
        return start + len(self.text[start : start + col].encode()[:col].decode(errors="ignore"))


def place_of(node: ast.expr | ast.stmt | ast.keyword) -> Place:
    """Where the parser says that a node is."""
    return node.lineno, node.end_lineno or node.lineno, node.col_offset, node.end_col_offset or node.col_offset


def _recorded(call: ast.Call) -> set[Place]:
    """The places that CPython may give for a call while it runs."""
    place = place_of(call)
    _, line, _, behind = place_of(call.func)
    if not isinstance(call.func, ast.Attribute) or line == call.lineno:
        return {place}
    # A method called on a later line than its object starts on is placed at its name (compile.c,
    # update_start_location_to_match_attr); CPython 3.12 and later then end it behind the name, too.
    name = behind - len(call.func.attr.encode())
    return {place, (line, place[1], name, place[3]), (line, place[1], name, behind)}


def is_simple(node: ast.AST) -> TypeGuard[ast.stmt]:
    """A statement that holds no others."""
    return isinstance(node, ast.stmt) and not hasattr(node, "body") and not isinstance(node, ast.Match)


def word_of(node: ast.AST) -> str | None:
    """What a name, an attribute, a parameter, a keyword or an import is called."""
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word) | ast.arg(arg=word) | ast.keyword(arg=word):
            return word
        case ast.alias(name=name):
            return name.rpartition(".")[2]
    return None


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


def found_at(site: CallSite, known: Iterable[Script]) -> tuple[Script, ast.Call] | None:
    """The file that a call is in, and the call as it stands there; None where it cannot be told."""
    return next(((script, call) for script in known if (call := script.at(site)) is not None), None)


@lru_cache(maxsize=1024)
def parsed(path: str, sha256: str, text: str) -> Script | None:
    """A file's text, parsed; None where it is not valid Python. (Every lever asks for all files, several times.)"""
    try:
        tree = snippet.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    return Script(path=path, sha256=sha256, text=text, tree=tree)


def moved_to(call: ast.Call) -> str | None:
    """Where a call moves its tensor, as an expression, also where it converts as well (`x.to(device,
    dtype=torch.float32)`); None if it does anything else, moves it to the CPU, or that cannot be told."""
    # Behind them `non_blocking` can be given by position.
    most = {"to": 2, "cuda": 1}.get(call.func.attr, -1) if isinstance(call.func, ast.Attribute) else -1
    if len(call.args) > most or any(word.arg is None for word in call.keywords):
        return None
    given = [*(word.value for word in call.keywords if word.arg == "device"), *call.args][:1]
    if most == 1 and not given:
        return '"cuda"'
    return ast.unparse(given[0]) if given and _is_device(given[0]) else None


def _is_device(node: ast.expr) -> bool:
    """A GPU, as it is commonly written."""
    match node:
        case ast.Constant(value=str(name)) | ast.JoinedStr(values=[ast.Constant(value=str(name)), *_]):
            return not name.startswith("cpu")
        case ast.Constant(value=index):
            return type(index) is int
        case ast.Call(func=ast.Attribute(attr="device") | ast.Name(id="device"), args=[name, *_]):
            return _is_device(name)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            lower = name.lower()
            return any(part in lower for part in _SAYS_DEVICE) and not any(part in lower for part in _SAYS_HOST)
    return False
