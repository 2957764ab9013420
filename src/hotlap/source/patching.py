"""Edits -> the new text of each file, and a unified diff of all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotlap.errors import UserError
from hotlap.record import FileChange
from hotlap.source.edits import Edit, InsertAfterImports, WrapStatement
from hotlap.source.file import SourceFile, digest, naming, read, shown
from hotlap.source.names import needed
from hotlap.source.page import Page


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
    edits = [edit for index, edit in enumerate(edits) if edit not in edits[:index]]
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
