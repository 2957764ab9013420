"""Writes the patch of a study to the user's files, and takes it back."""

import os
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from hotlap.errors import RecordError, UserError
from hotlap.record import SCHEMA, FileChange, Study, load, save
from hotlap.source import snippet
from hotlap.source.file import decode, digest, read_bytes, shown

# Bytes as text, each one character, and back.
_BYTES = "latin-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What is kept beside a study while its patch is applied."""

    applied: str
    """ISO 8601, UTC."""
    originals: Mapping[str, str]
    """sha256 before the patch -> the file as it was, each byte a character."""
    schema: int = SCHEMA
    changes: tuple[FileChange, ...]
    """What was done to each file, by the study's patch or the part of it that some of its levers make, without the
    texts."""


@dataclass(frozen=True, slots=True)
class Target:
    """A file of the user that the study's patch changes, after all checks of its path."""

    path: Path
    """Where it really is: no symbolic link in it."""
    change: FileChange
    data: bytes
    """What is in it now."""

    @property
    def state(self) -> str:
        """ "before" the patch, "after" it, or "changed"."""
        now = digest(self.data)
        if now == self.change.before_sha256:
            return "before"
        return "after" if now == self.change.after_sha256 else "changed"


@dataclass(frozen=True, slots=True)
class PatchFiles:
    """The files that a study's patch is about.

    `home` is the folder where the study keeps what `revert` needs; `roots` are the folders outside of which nothing
    is changed, whatever paths the study names.
    """

    study: Study
    home: Path
    roots: Sequence[Path]

    def apply(self) -> list[Path]:
        """Apply the patch; the files that it changes, none if it is applied already.

        Raises:
            UserError: the patch cannot be applied; no file was changed, unless the disk failed on the way.
        """
        applied = self.applied()
        if applied is not None and applied.changes != _without_texts(self.study.changes) and self.in_place():
            raise UserError(
                "Another part of this study's patch is applied. Take it back first, with `hotlap apply --revert`."
            )
        targets = self._unchanged("it was measured, so the patch may not fit. Run `hotlap tune` again.")
        # A run that was cut off may have changed some of them.
        left = [target for target in targets if target.state == "before"]
        texts = self._patched(targets) if left else {}
        if left:
            originals = {one.change.before_sha256: self._original(one).decode(_BYTES) for one in targets}
            changes, now = _without_texts(self.study.changes), datetime.now(UTC).isoformat()
            with _telling(self.home):
                self.home.mkdir(parents=True, exist_ok=True)
                save(Applied(applied=now, originals=originals, changes=changes), self._note)
            _write([(target, texts[target.path]) for target in left])
        return [target.path for target in left]

    def revert(self) -> list[Path]:
        """Bring back the files as they were; those that were changed, none if they are so already.

        Raises:
            UserError: they cannot all be brought back; no file was changed, unless the disk failed on the way.
        """
        now = "the patch was applied. Undo those changes first, or take the patch back by hand."
        left = [target for target in self._as_applied()._unchanged(now) if target.state == "after"]
        originals = [(target, self._original(target)) for target in left]
        if self.applied() is not None:
            _write(originals)
            with _telling(self.home):
                self._note.unlink()
        return [target.path for target in left]

    def applied(self) -> Applied | None:
        """What `apply` noted; None if it did not, or if it was reverted."""
        remedy = "Take the patch back with `patch -R`."  # what is left of it may be all there is of the originals
        return load(self._note, Applied, remedy=remedy) if self._note.exists() else None

    def in_place(self) -> bool:
        """Something of this study's patch was applied, and is in the files."""
        return self.applied() is not None and any(one.state == "after" for one in self._as_applied()._targets())

    @property
    def _note(self) -> Path:
        return self.home / "applied.json"

    def _as_applied(self) -> "PatchFiles":
        """The files that the part which was applied is about."""
        applied = self.applied()
        return self if applied is None else replace(self, study=replace(self.study, changes=applied.changes))

    def _unchanged(self, since: str) -> list[Target]:
        targets = self._targets()
        for target in targets:
            if target.state == "changed":
                raise UserError(f"{shown(str(target.path))} changed since {since}")
        return targets

    def _targets(self) -> list[Target]:
        paths = {self._checked(change.path): change for change in self.study.changes}
        if len(paths) != len(self.study.changes) or not paths:
            raise RecordError("The study is damaged: its patch and its list of files differ. Run `hotlap tune` again.")
        return [Target(path=path, change=change, data=read_bytes(path)) for path, change in paths.items()]

    def _checked(self, name: str) -> Path:
        """The file that `name` means.

        Raises:
            UserError: it is outside of the script's own folders, or no file.
        """
        # A null byte, a loop of links: whatever is odd is refused like a path that leads elsewhere.
        with suppress(OSError, ValueError, RuntimeError):
            path = Path(name).resolve()
            if Path(name).is_absolute() and any(path.is_relative_to(root.resolve()) for root in self.roots):
                if not path.is_file():
                    raise UserError(f"{shown(name)} is not there any more. Put it back, or run `hotlap tune` again.")
                return path
        folders = " and ".join(shown(str(root)) for root in self.roots)
        raise UserError(f"The study would change {shown(name)}, which is not below {folders}. Nothing was changed.")

    def _patched(self, targets: Sequence[Target]) -> dict[Path, bytes]:
        """The new bytes of each file, checked against the digests and the diff that the study shows. Both sides must be
        Python: hotlap changes nothing else."""
        made: dict[Path, bytes] = {}
        patch = ""
        for target in targets:
            change, path = target.change, shown(str(target.path))
            source = decode(self._original(target), change.path)
            try:
                snippet.check(source.text, name=source.path)
                snippet.check(change.after, name=source.path)
                made[target.path] = source.encode(change.after)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                raise UserError(f"{path} is not a Python file, or would be none.") from None
            patch += source.diff(change.after, root=Path(self.study.cwd))
        if patch != self.study.patch or any(digest(made[one.path]) != one.change.after_sha256 for one in targets):
            raise RecordError("The study is damaged: its patch is not what it would write. Run `hotlap tune` again.")
        return made

    def _original(self, target: Target) -> bytes:
        """What is in a file before the patch.

        Raises:
            UserError: it was patched, and that was not kept.
        """
        if target.state == "before":
            return target.data
        applied = self.applied()
        if applied is None:
            raise UserError(
                f"What was there before the patch is not kept in {shown(str(self.home))}: it was not applied by "
                "`hotlap apply`. Take it back with `patch -R`, or from version control."
            )
        data = applied.originals.get(target.change.before_sha256, "").encode(_BYTES, errors="replace")
        if digest(data) != target.change.before_sha256:
            raise RecordError(
                f"What is kept of {shown(str(target.path))} is damaged. Take the patch back with `patch -R`."
            )
        return data


def _without_texts(changes: Sequence[FileChange]) -> tuple[FileChange, ...]:
    """Paths and digests alone, which say as much."""
    return tuple(replace(change, after="") for change in changes)


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    """A failure of the file system becomes a sentence about `path`."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{shown(str(path))} cannot be written ({error.strerror}). Fix that and do the same again: what is done "
            "already stays, and is not done twice."
        ) from None


def _write(files: Sequence[tuple[Target, bytes]]) -> None:
    """Write all of `files`: each is complete beside its place before the first is put there."""
    parts: list[Path] = []
    try:
        for target, data in files:
            with _telling(target.path):
                if not os.access(target.path, os.W_OK):
                    raise PermissionError(13, "it is read-only")
                handle, name = tempfile.mkstemp(
                    dir=target.path.parent, prefix=f".{target.path.name}.", suffix=".hotlap"
                )
                parts.append(Path(name))
                with open(handle, "wb") as file:
                    file.write(data)
                of = target.path.stat()
                os.chmod(parts[-1], stat.S_IMODE(of.st_mode))
                if (of.st_uid, of.st_gid) != (os.geteuid(), os.getegid()):
                    with suppress(OSError):  # only root may give files away
                        os.chown(parts[-1], of.st_uid, of.st_gid)
        for (target, _), part in zip(files, parts, strict=True):
            with _telling(target.path):
                os.replace(part, target.path)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)
