"""Edits -> the new text of each file, and a unified diff of all.

An edit is data: a place in the file as it was recorded, and what is to be there. Each says itself which splices that
takes; to write a new kind is to write one such class.
"""

import ast
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from hotlap.errors import UserError
from hotlap.record import CallSite, FileChange
from hotlap.source import snippet
from hotlap.source.file import NEWLINE, Refusal, SourceFile, digest, naming, read, shown
from hotlap.source.names import needed
from hotlap.source.page import Page, Splice, Token
from hotlap.source.script import Script, Span, is_simple

_GIVES_UP = (ast.Yield, ast.YieldFrom, ast.Await)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit(ABC):
    """One change at one place."""

    site: CallSite
    """The call that it is about; `top_of` for what goes behind the imports."""
    imports: str = ""
    """Statements that bind names of its code. All other names are those that the file has at that place."""

    @abstractmethod
    def splices(self, page: Page) -> Iterator[Splice]:
        """Where the page changes; nothing where all of it is there already.

        Raises:
            Refusal: it cannot be made without a risk of wrong code.
        """


def top_of(path: str, sha256: str) -> CallSite:
    """Stands for no call, but for the top of a file."""
    return CallSite(calls="", path=path, sha256=sha256, line=0, end_line=0, col=0, end_col=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertAfterImports(Edit):
    """A statement behind the last import at the top of the file, unless it stands somewhere at its top level."""

    code: str

    def splices(self, page: Page) -> Iterator[Splice]:
        """None: they are put there when all else is done."""
        code = page.renamed(self.code, self.imports)
        (wanted,) = snippet.statements(code)
        if wanted not in map(ast.dump, page.recorded.tree.body):
            page.names.use(self.imports)
            page.behind[code.strip("\n")] = None
        yield from ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertBefore(Edit):
    """A statement in front of the one that makes a call, unless it stands somewhere in front of it already."""

    code: str
    """One simple statement."""

    def splices(self, page: Page) -> Iterator[Splice]:
        """The line; among other statements on one line a part of that."""
        script, code = page.script, page.renamed(self.code, self.imports)
        statement = _statement_of(script, page.call(self.site))
        if statement is None:
            raise Refusal("the call is in no statement of its own; give it one")
        (wanted,) = snippet.statements(code)
        recorded = _in_front(page.recorded, _statement_of(page.recorded, page.recorded.at(self.site)))
        if wanted not in map(ast.dump, recorded) and not _holds(script, statement, wanted):
            start = script.span(statement)[0]
            yield start, start, f"{code}\n{_margin(script, statement)}" if _has_line(script, statement) else f"{code}; "


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertBehind(Edit):
    """A statement behind the one that makes a call, unless it stands somewhere behind it already."""

    code: str
    """One simple statement."""

    def splices(self, page: Page) -> Iterator[Splice]:
        """The line; below a comment's."""
        script, code = page.script, page.renamed(self.code, self.imports)
        statement = _on_own_line(script, _statement_of(script, page.call(self.site)))
        block = script.block_of(statement)
        if snippet.statements(code)[0] not in map(ast.dump, block[block.index(statement) + 1 :]):
            end = script.line_end(script.span(statement)[1])
            yield end, end, f"\n{_margin(script, statement)}{code}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrapStatement(Edit):
    """The statement around a call moves into a `with`; `suffix` is put behind the call itself.

    `out = model(x)` -> `with torch.autocast("cpu", dtype=torch.bfloat16):` / `    out = model(x).float()`
    """

    header: str
    """`with ...` without the colon."""
    suffix: str = ""

    def splices(self, page: Page) -> Iterator[Splice]:
        """The header, the indentation of what it is about, and the suffix."""
        script, call = page.script, page.call(self.site)
        statement = _statement_now(script, call)
        if any(isinstance(node, _GIVES_UP) or getattr(node, "is_async", 0) for node in ast.walk(statement)):
            raise Refusal("the statement gives up control in its middle (yield or await), and the `with` would stay on")
        targets = (ast.Store, ast.Del)
        if self.suffix and any(isinstance(getattr(outer, "ctx", None), targets) for outer in script.around(call)):
            raise Refusal("the call is in the target of an assignment")
        header = page.renamed(f"{self.header}: pass", self.imports).removesuffix(": pass")
        suffix = page.renamed(f"_{self.suffix}", self.imports)[1:]
        end = script.span(call)[1]
        if not re.compile(re.escape(suffix) + r"(\b|(?<!\w))").match(script.text, end):
            yield end, end, suffix
        if not set(snippet.with_items(header)) <= set(_items_around(script, statement)):
            yield from _indented(page, statement, header)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patched:
    """What a set of edits comes to."""

    diff: str
    """Unified diff; empty if there is nothing to change."""
    texts: Mapping[str, str]
    """Path of each changed file -> its new text, without a byte order mark."""
    changes: tuple[FileChange, ...]


def patch(edits: Sequence[Edit], *, root: Path) -> Patched:
    """Make `edits`, on paper: no file is written. What an edit asks for and finds in place is left as it is.

    Args:
        edits: Where it matters, later ones go around earlier ones, unless an edit says otherwise (`inside`).
        root: Folder that the paths in the diff are relative to, where they lie below it.

    Raises:
        UserError: a file is missing, cannot be read, or changed since it was recorded.
        CannotEdit: an edit cannot be made at its place without a risk of wrong code.
    """
    diffs: list[str] = []
    texts: dict[str, str] = {}
    changes: list[FileChange] = []
    for path in dict.fromkeys(edit.site.path for edit in edits):
        some = [edit for edit in edits if edit.site.path == path]
        recorded = {edit.site.sha256 for edit in some}
        if len(recorded) > 1:
            raise UserError(f"{shown(path)} changed while it was measured. Run `hotlap tune` again.")
        source = read(path, sha256=recorded.pop())
        new = edited(source, tuple(some))
        if new == source.text:
            continue
        texts[path] = new
        diffs.append(source.diff(new, root=root))
        after = digest(source.encode(new))
        changes.append(FileChange(path=path, before_sha256=source.sha256, after_sha256=after, after=new))
    return Patched(diff="".join(diffs), texts=texts, changes=tuple(changes))


@lru_cache(maxsize=256)
def edited(source: SourceFile, edits: tuple[Edit, ...]) -> str:
    """The new text of one file. (A search asks for that of each lever in each of its rounds.)

    Raises:
        CannotEdit: as `patch`.
    """
    edits = tuple(dict.fromkeys(edits))
    inserted = [edit for edit in edits if isinstance(edit, InsertAfterImports)]
    names = frozenset(binding.name for edit in inserted for binding in needed(edit.imports))
    sites = [edit.site for edit in edits if edit not in inserted]
    with naming(source.path, None):
        page = Page(source, sites, behind_imports=names if inserted else None)
    # What goes around a statement goes around all that is put there.
    for edit in sorted(edits, key=lambda edit: isinstance(edit, WrapStatement)):
        with naming(source.path, edit.site.line or None):
            splices = [*edit.splices(page)]
            if splices:
                page.names.use(edit.imports)
                page.apply(splices)
    with naming(source.path, None):
        return page.finish()


def _statement_of(script: Script, call: ast.Call | None) -> ast.stmt | None:
    """The simple statement that makes a call; None in a lambda, and in the header of a compound one."""
    outer = script.around(call) if call is not None else ()
    found = next((node for node in outer if isinstance(node, ast.Lambda | ast.stmt)), None)
    return found if found is not None and is_simple(found) else None


def _on_own_line(script: Script, statement: ast.stmt | None) -> ast.stmt:
    """The statement, where nothing else is on its lines."""
    if statement is None or not _has_line(script, statement):
        raise Refusal("the call is in a statement that has no line of its own; give it one")
    return statement


def _has_line(script: Script, statement: ast.stmt) -> bool:
    """Nothing else is on the lines of the statement."""
    block, margin = script.block_of(statement), _margin(script, statement)
    line_before = script.text[: script.span(statement)[0] - len(margin)].rstrip("\r\n")
    same_line = any(other.lineno == statement.end_lineno for other in block if other is not statement)
    return not margin.strip() and not same_line and not line_before.endswith("\\")


def _in_front(script: Script, statement: ast.AST | None) -> Iterator[ast.stmt]:
    """What stands in front of a statement in its block, and of the `with` statements around it in theirs, the nearest
    first."""
    while isinstance(statement, ast.stmt):
        block, outer = script.block_of(statement), next(script.around(statement))
        yield from reversed(block[: block.index(statement)])
        statement = outer if isinstance(outer, ast.With) else None


def _holds(script: Script, statement: ast.stmt, wanted: str) -> bool:
    """What is `wanted` (as dumped) stands in front of a statement, and nothing of what it names is assigned since."""
    for other in _in_front(script, statement):
        if ast.dump(other) == wanted:
            return True
        if any(f"Name(id={name!r}" in wanted for node in ast.walk(other) for name in _assigned(node)):
            return False
    return False


def _assigned(node: ast.AST) -> Iterator[str]:
    """The variable that is set, or a part of it: `model` in `model.head[0] = head`."""
    if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        if isinstance(node, ast.Name):
            yield node.id


def _statement_now(script: Script, call: ast.Call) -> ast.stmt:
    """The simple statement that makes the call, while it runs."""
    for outer in script.around(call):
        if isinstance(outer, ast.Lambda):
            raise Refusal("the call is in a lambda, which runs at another time than the statement around it")
        # What a generator expression goes over first is made when it is made.
        if isinstance(outer, ast.GeneratorExp) and call not in ast.walk(outer.generators[0].iter):
            raise Refusal("the call is in a generator expression, which may run at another time than the statement")
    statement = _statement_of(script, call)
    if statement is None:
        raise Refusal("the call is in the header of a compound statement; give it a line of its own")
    return statement


def _items_around(script: Script, statement: ast.stmt) -> Iterator[str]:
    """The items of all `with` statements around it, up to the function that it is in."""
    for outer in script.around(statement):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            break
        if isinstance(outer, ast.With):
            yield from map(ast.dump, outer.items)


def _indented(page: Page, statement: ast.stmt, header: str) -> Iterator[Splice]:
    """The statement below the header. What is within strings stays where it is."""
    script = page.script
    margin = _margin(script, _on_own_line(script, statement))
    unit = _unit(script, margin)
    start, end = script.span(statement)
    yield start, start, f"{header}:\n{margin}{unit}"
    strings = [*_strings(page.tokens(statement))]
    for newline in NEWLINE.finditer(script.text, start, end):
        at = newline.end()
        if script.text[at] not in "\r\n" and not any(begin < at < close for begin, close in strings):
            yield at, at, unit


def _strings(tokens: Iterable[Token]) -> Iterator[Span]:
    begun: list[int] = []
    for token in tokens:
        if token.kind.endswith("STRING_START"):  # of an f-string, from Python 3.12 on
            begun.append(token.start)
        elif token.kind.endswith("STRING_END"):
            yield begun.pop(), token.end
        elif token.kind == "STRING":
            yield token.start, token.end


def _margin(script: Script, statement: ast.stmt) -> str:
    """The space in front of the line."""
    start = script.span(statement)[0]
    return script.text[script.line_start(start) : start]


def _unit(script: Script, margin: str) -> str:
    """By how much the file indents, with spaces or tabs as the line of this margin has them."""
    margins = (_margin(script, node) for node in ast.walk(script.tree) if isinstance(node, ast.stmt))
    return min((one for one in margins if one.isspace() and one[0] == (margin or one)[0]), key=len, default="    ")
