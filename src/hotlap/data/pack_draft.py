"""A folder that is there only when it is whole."""

import contextlib
import fcntl
import glob
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from hotlap.errors import UserError


def check_target(target: Path) -> None:
    """Refuse a folder that is there already, or cannot be made.

    Raises:
        UserError: the reason.
    """
    if os.path.lexists(target):
        raise UserError(f"{target} is there already, and is left as it is. Remove it, or name another folder.")
    if not target.parent.is_dir():
        raise UserError(f"{target} cannot be made: there is no folder {target.parent}.")


def publish(draft: Path, target: Path) -> None:
    """Give a full draft its name, on the disk too: after a power failure the folder is whole or not there.

    Raises:
        UserError: another process made the target meanwhile.
        OSError: the disk failed.
    """
    for path in (*draft.iterdir(), draft):
        _flush(path)
    check_target(target)
    draft.rename(target)
    _flush(target.parent)


@contextlib.contextmanager
def drafted(target: Path) -> Iterator[Path]:
    """A folder beside the target, which is gone afterwards unless it was renamed."""
    prefix = f".{target.name}."
    _tidy(target.parent, prefix)
    folder, lock = target.parent / f"{prefix}{uuid.uuid4().hex}.partial", -1
    try:
        try:
            folder.mkdir()
        except OSError as error:
            raise UserError(f"{target.parent} cannot be written to: {error.strerror}.") from None
        # Held as long as this process lives: by it the next run knows what a killed one left.
        lock = _locked(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock >= 0:
            os.close(lock)


def _tidy(parent: Path, prefix: str) -> None:
    """Remove what killed runs left."""
    for folder in parent.glob(f"{glob.escape(prefix)}*.partial"):
        lock = _locked(folder)
        if lock >= 0:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _locked(folder: Path) -> int:
    """A descriptor that holds the lock of the folder; -1 if another process has it, or the file system has none."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return -1
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return -1
    return lock


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if not path.is_dir():  # some file systems flush files only
            raise
    finally:
        os.close(descriptor)
