"""A folder that is there only when it is whole."""

import contextlib
import fcntl
import os
import shutil
import tempfile
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
    try:
        folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=".partial", dir=target.parent))
        folder.chmod(0o777 & ~_umask())
    except OSError as error:
        raise UserError(f"{target.parent} cannot be written to: {error.strerror}.") from None
    # Held as long as this process lives: by it the next run knows what a killed one left.
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _tidy(parent: Path, prefix: str) -> None:
    """Remove what killed runs left."""
    for folder in parent.glob(f"{prefix}*.partial"):
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _umask() -> int:
    found = os.umask(0o077)
    os.umask(found)
    return found


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
