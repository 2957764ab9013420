"""Edits -> the new text of each file, and a unified diff of all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import libcst as cst

from hotlap.errors import UserError
from hotlap.record import FileChange
from hotlap.source import snippet
from hotlap.source.arguments import Arguments
from hotlap.source.edits import (
    AddArgument,
    Edit,
    InsertAfterImports,
    InsertBefore,
    InsertBehind,
    ReplaceCall,
    ReplaceStatements,
    SiteEdit,
    WrapArgument,
    WrapStatement,
)
from hotlap.source.file import Refusal, SourceFile, digest, naming, read, shown
from hotlap.source.layout import Layout
from hotlap.source.names import Names, needed
from hotlap.source.replacements import Replacements
from hotlap.source.splices import Rank, Splice, compose, insert
from hotlap.source.statements import Statements
from hotlap.source.tree import Tree


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
    for path, some in _by_path(edits).items():
        recorded = {_sha256(edit) for edit in some}
        if len(recorded) > 1:
            raise UserError(f"{shown(path)} changed while it was measured. Run `hotlap tune` again.")
        source = read(path, sha256=recorded.pop())
        new = edited(source, some)
        if new == source.text:
            continue
        texts[path] = new
        diffs.append(source.diff(new, root=root))
        after = digest(source.encode(new))
        changes.append(FileChange(path=path, before_sha256=source.sha256, after_sha256=after, after=new))
    return Patched(diff="".join(diffs), texts=texts, changes=tuple(changes))


def edited(source: SourceFile, edits: Sequence[Edit]) -> str:
    """The new text of one file.

    Raises:
        CannotEdit: as `patch`.
    """
    with naming(source.path, None):
        _check(source.text, source, "it is not valid Python")
        pen = _Pen(source, edits)
    for edit in edits:
        with naming(source.path, None if isinstance(edit, InsertAfterImports) else edit.site.line):
            pen.make(edit)
    with naming(source.path, None):
        text = pen.text()
        _check(text, source, "the change would not be valid Python")
    return text


class _Pen:
    """Edits of one file, planned one by one and made at once."""

    def __init__(self, source: SourceFile, edits: Sequence[Edit]) -> None:
        self._source = source
        self._tree = Tree(source)
        self._layout = Layout(self._tree)
        self._arguments = Arguments(self._tree)
        self._statements = Statements(self._tree)
        self._replacements = Replacements(self._tree)
        self._behind: dict[str, None] = {}
        self._code_place, self._import_place = self._places(edits)
        last_line = self._layout.last_line(self._import_place)
        self._names = Names(snippet.parse(source.text), before_line=last_line)

    def make(self, edit: Edit) -> None:
        """Plan one edit."""
        match edit:
            case AddArgument():
                self._arguments.add(edit, self._tree.call(edit.site), self._names)
            case WrapArgument():
                self._arguments.wrap(edit, self._tree.call(edit.site), self._names)
            case WrapStatement():
                self._statements.wrap(edit, self._tree.call(edit.site), self._names)
            case ReplaceCall() | ReplaceStatements() | InsertBefore() | InsertBehind():
                self._replacements.plan(edit, self._names)
            case InsertAfterImports():
                self._put_behind_imports(edit)

    def _node(self, edit: SiteEdit) -> cst.CSTNode:
        """What the edit is about."""
        if isinstance(edit, ReplaceStatements):
            return self._tree.statements(edit.site)[0]
        return self._tree.call(edit.site)

    def _put_behind_imports(self, edit: InsertAfterImports) -> None:
        code = snippet.renamed(edit.code, self._names.spelled(edit.imports))
        if not self._layout.holds(code):
            self._names.use(edit.imports)
            self._behind[code.strip("\n")] = None

    def text(self) -> str:
        """The text with all planned edits made."""
        splices = [*self._arguments.splices(), *self._statements.splices(), *self._replacements.splices()]
        splices += self._block(self._import_place, list(self._names.added), apart=False)
        splices += self._block(self._code_place, list(self._behind), apart=True)
        return compose(
            self._source.text,
            splices,
            shifts=tuple(self._statements.shifts()),
            strings=self._tree.strings,
            newline=self._source.newline,
        )

    def _places(self, edits: Sequence[Edit]) -> tuple[int, int]:
        """Behind which statements go: inserted statements, and inserted imports, which have to come first."""
        inserted = [edit for edit in edits if isinstance(edit, InsertAfterImports)]
        names = frozenset(binding.name for edit in inserted for binding in needed(edit.imports))
        code_place = self._layout.section_end(names)
        first = len(self._tree.module.body)
        for edit in edits:
            if isinstance(edit, SiteEdit):
                with naming(self._source.path, edit.site.line):
                    first = min(first, self._tree.top_level(self._node(edit)))
        imports = self._layout.last_import(before=first)
        return code_place, min(imports, code_place) if inserted else imports

    def _block(self, place: int, lines: list[str], *, apart: bool) -> list[Splice]:
        """Statements behind the one at `place`, set `apart` by empty lines, or else only from what is no import."""
        if not lines:
            return []
        text, offset = self._source.text, self._layout.offset(place)
        block = "".join(f"{line}\n" for line in lines)
        if apart and offset:
            block = f"\n{block}"
        if offset < len(text) and text[offset] not in "\r\n" and (apart or place < 0):
            block = f"{block}\n"
        if offset == len(text) and text and text[-1] not in "\r\n":
            block = f"\n{block}".removesuffix("\n")
        return [insert(offset, block, Rank.TOP)]


def _check(text: str, source: SourceFile, what: str) -> None:
    try:
        snippet.check(text, name=source.path)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Refusal(f"{what} ({error})") from None


def _by_path(edits: Sequence[Edit]) -> dict[str, list[Edit]]:
    """The edits of each file, in order, without those that say the same again."""
    found: dict[str, list[Edit]] = {}
    for edit in edits:
        path = edit.path if isinstance(edit, InsertAfterImports) else edit.site.path
        some = found.setdefault(path, [])
        if edit not in some:
            some.append(edit)
    return found


def _sha256(edit: Edit) -> str:
    return edit.sha256 if isinstance(edit, InsertAfterImports) else edit.site.sha256
