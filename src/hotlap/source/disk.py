"""Writes the patch of a study to the user's files, all of them or none, and takes it back."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What is kept beside a study while its patch is applied."""

    applied: str
    """ISO 8601, UTC."""
    originals: Mapping[str, str]
    """sha256 before the patch -> name of the file beside this one that has those bytes."""
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

    def apply(self, *, check: bool) -> list[Path]:
        """Apply the patch; the files that it changes, none if it is applied already.

        Args:
            check: Only say what would be done.

        Raises:
            UserError: the patch cannot be applied; no file was changed.
        """
        self._refuse_beside_another_part()
        targets = self._targets()
        for target in targets:
            if target.state == "changed":
                raise UserError(
                    f"{shown(str(target.path))} changed since it was measured, so the patch may not fit. "
                    "Run `hotlap tune` again."
                )
        # A run that was cut off may have changed some of them.
        left = [target for target in targets if target.state == "before"]
        texts = self._patched(targets) if left else {}
        if left and not check:
            self._keep(targets, left)
            _write([(target, texts[target.path]) for target in left])
        return [target.path for target in left]

    def revert(self, *, check: bool) -> list[Path]:
        """Bring back the files as they were; those that were changed, none if they are so already.

        Raises:
            UserError: they cannot all be brought back; no file was changed.
        """
        applied = self.applied()
        targets = self._as(applied)._targets()
        for target in targets:
            if target.state == "changed":
                raise UserError(
                    f"{shown(str(target.path))} changed since the patch was applied. Undo those changes first, or take "
                    "the patch back by hand."
                )
        left = [target for target in targets if target.state == "after"]
        originals = [(target, self._original(target, applied)) for target in left]
        if applied is not None and not check:
            _write(originals)
            self._forget(applied)
        return [target.path for target in left]

    def applied(self) -> Applied | None:
        """What `apply` noted; None if it did not, or if it was reverted."""
        path = self.home / "applied.json"
        return load(path, Applied) if path.exists() else None

    def _as(self, applied: Applied | None) -> "PatchFiles":
        """The files that the part which was applied is about."""
        if applied is None:
            return self
        return replace(self, study=replace(self.study, changes=applied.changes))

    def in_place(self) -> bool:
        """Something of this study's patch was applied, and is in the files."""
        applied = self.applied()
        return applied is not None and any(target.state == "after" for target in self._as(applied)._targets())

    def _refuse_beside_another_part(self) -> None:
        applied = self.applied()
        other = applied is not None and applied.changes != _without_texts(self.study.changes)
        if other and self.in_place():
            raise UserError(
                "Another part of this study's patch is applied. Take it back first, with `hotlap apply --revert`."
            )

    def _targets(self) -> list[Target]:
        targets = [
            Target(path=path, change=change, data=read_bytes(path))
            for change in self.study.changes
            for path in [self._checked(change.path)]
        ]
        if len({target.path for target in targets}) != len(targets) or not targets:
            raise RecordError("The study is damaged: its patch and its list of files differ. Run `hotlap tune` again.")
        return targets

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
        """The new bytes of each file, checked against the digests and the diff that the study shows."""
        applied, root = self.applied(), Path(self.study.cwd)
        found, diffs = {}, []
        for target in targets:
            before = target.data if target.state == "before" else self._original(target, applied)
            found[target.path], text = _patched(target, before, root=root)
            diffs.append(text)
        if "".join(diffs) != self.study.patch:
            raise RecordError("The study is damaged: its patch is not what it would write. Run `hotlap tune` again.")
        return found

    def _keep(self, targets: Sequence[Target], left: Sequence[Target]) -> None:
        """Save what `revert` needs, before anything is changed."""
        names = {target.change.before_sha256: f"{index}.original" for index, target in enumerate(targets)}
        with _telling(self.home):
            folder = self.home / "originals"
            folder.mkdir(parents=True, exist_ok=True)
            for target in left:
                (folder / names[target.change.before_sha256]).write_bytes(target.data)
            applied = Applied(
                applied=datetime.now(UTC).isoformat(),
                originals=names,
                changes=_without_texts(self.study.changes),
            )
            save(applied, self.home / "applied.json")

    def _original(self, target: Target, applied: Applied | None) -> bytes:
        """What was in a patched file before.

        Raises:
            UserError: that was not kept.
        """
        if applied is None:
            raise UserError(
                f"What was there before the patch is not kept in {shown(str(self.home))}: it was not applied by "
                "`hotlap apply`. Take it back with `patch -R`, or from version control."
            )
        # `name` only: the file may have been tampered with.
        name = Path(applied.originals.get(target.change.before_sha256, "")).name
        data = read_bytes(self.home / "originals" / name)
        if digest(data) != target.change.before_sha256:
            raise RecordError(
                f"What is kept of {shown(str(target.path))} is damaged. Take the patch back with `patch -R`."
            )
        return data

    def _forget(self, applied: Applied) -> None:
        with _telling(self.home):
            (self.home / "applied.json").unlink()
            for name in applied.originals.values():
                (self.home / "originals" / Path(name).name).unlink(missing_ok=True)
            with suppress(OSError):  # something of the user's is in it
                (self.home / "originals").rmdir()


def _without_texts(changes: Sequence[FileChange]) -> tuple[FileChange, ...]:
    """Paths and digests alone, which say as much."""
    return tuple(replace(change, after=None) for change in changes)


def _patched(target: Target, before: bytes, *, root: Path) -> tuple[bytes, str]:
    """The new bytes of one file, and the diff. Both sides must be Python: hotlap changes nothing else."""
    change, path = target.change, shown(str(target.path))
    if change.after is None:
        raise RecordError(f"The study is damaged: it lacks the new text of {path}. Run `hotlap tune` again.")
    source = decode(before, change.path)
    try:
        snippet.check(source.text, name=source.path)
        snippet.check(change.after, name=source.path)
        new = source.encode(change.after)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UserError(f"{path} is not a Python file, or would be none.") from None
    if digest(new) != change.after_sha256:
        raise RecordError(f"The study is damaged: it does not make {path} what was measured. Run `hotlap tune` again.")
    return new, source.diff(change.after, root=root)


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    """A failure of the file system becomes a sentence about `path`."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{shown(str(path))} cannot be written ({error.strerror}). Nothing was changed.") from None


def _write(files: Sequence[tuple[Target, bytes]]) -> None:
    """Write all of `files`, or none: each is complete beside its place before the first is put there."""
    parts: list[Path] = []
    done: list[Target] = []
    try:
        for target, data in files:
            with _telling(target.path):
                parts.append(_part(target, data))
        for (target, _), part in zip(files, parts, strict=True):
            with _telling(target.path):
                os.replace(part, target.path)
            done.append(target)
    except BaseException:
        for target in done:
            os.replace(_part(target, target.data), target.path)
        raise
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def _part(target: Target, data: bytes) -> Path:
    """A new file beside `target` with its rights and with `data`."""
    if not os.access(target.path, os.W_OK):
        raise PermissionError(13, "it is read-only")
    facts = target.path.stat()
    handle, name = tempfile.mkstemp(dir=target.path.parent, prefix=f".{target.path.name}.", suffix=".hotlap")
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, stat.S_IMODE(facts.st_mode))
        if hasattr(os, "chown") and (facts.st_uid, facts.st_gid) != (os.geteuid(), os.getegid()):
            with suppress(OSError):  # only root may give files away
                os.chown(name, facts.st_uid, facts.st_gid)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)
