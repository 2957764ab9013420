"""A folder of finished caches, one file each: found again by the next run, and never trusted unread.

A file is written under a name of its own, which its owner holds locked, and gets its final name only when it is whole:
whoever is killed leaves a file that the next run removes, and two trainings that fill the same cache never see each
other's half. What a file holds is checked (length, a digest of key and all bytes) before an item of it is used.

File: the store's memory, page by page; the digest.
"""

import contextlib
import fcntl
import hashlib
import os
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import final

from hotlap.data.checks.look import of_bytes
from hotlap.data.item.codec import CannotKeep
from hotlap.data.item_cache.memory import SHARE_OF_DISK
from hotlap.data.item_cache.shared_memory import SharedBlock

_DIGEST_BYTES = 20

# A cache that nobody opened for so long is removed when another one is written.
_KEPT_DAYS = 30

# Between the making of a file and its lock nobody may take it for an abandoned one.
_LOCKED_BY_S = 10.0


@final
class UnfinishedFile:
    """A file that is being filled. It goes with this object, unless it was published; its memory stays as long as a
    tensor lies in it."""

    def __init__(self, path: Path, descriptor: int, num_bytes: int, key: str) -> None:
        self._path, self._descriptor, self._key = path, descriptor, key
        self.block = SharedBlock(num_bytes, file=descriptor)
        self.close = weakref.finalize(self, _give_up, path, descriptor, os.getpid())

    def publish(self, why_not: Callable[[], str | None]) -> str | None:
        """Make it, now that it is full, what the next run finds under its key, in place of what was made of the same
        data set before its files were changed; a sentence if it could not be written, or there is a reason not to."""
        try:
            reason = why_not()
            if reason is not None:
                reason = f"the cache is not kept on disk: {reason}"
            else:
                os.pwrite(self._descriptor, _digest(self._key, self.block), self.block.num_bytes)
                place = _place(self._path.parent, self._key)
                self._path.replace(place)
                for other in place.parent.glob(_place(Path(), f"{self._key.rpartition('-')[0]}-*").name):
                    if other != place:
                        with contextlib.suppress(OSError):
                            other.unlink()
        except OSError as error:
            reason = f"the cache could not be written: {error}"
        self.close()
        return reason


def _give_up(path: Path, descriptor: int, process: int) -> None:
    if os.getpid() == process:  # and no copy of the one that writes it
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _place(folder: Path, key: str) -> Path:
    return folder / f"{key}.cache"


def opened(folder: Path, key: str, num_bytes: int, say: Callable[[str], None]) -> SharedBlock | UnfinishedFile:
    """The finished cache of this key, checked; without one an empty file of this length for it, its space reserved.

    Raises:
        CannotKeep: the folder cannot be written to, or the disk is too full, or the file cannot be read.
    """
    place = _place(folder, key)
    try:
        with place.open("rb") as file:
            block = _read(file.fileno(), key, num_bytes)
        with contextlib.suppress(OSError):  # it may be somebody else's, or the disk may be read only
            os.utime(place)
        return block
    except FileNotFoundError:
        pass
    except OSError as error:  # whoever it belongs to may read it
        raise CannotKeep(f"{place} cannot be used: {error}") from error
    except ValueError as error:
        say(f"the cache on disk was damaged ({error}), so it is built anew")
        with contextlib.suppress(OSError):
            place.unlink()
    return _unfinished(folder, key, num_bytes)


def _unfinished(folder: Path, key: str, num_bytes: int) -> UnfinishedFile:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        usage = os.statvfs(folder)
        free = usage.f_bavail * usage.f_frsize
        if num_bytes > SHARE_OF_DISK * free:
            raise CannotKeep(f"{folder} has only {free} bytes free for {num_bytes}")
        _tidy(folder)
        descriptor, name = tempfile.mkstemp(suffix=".partial", dir=folder)
    except OSError as error:
        raise CannotKeep(f"{folder} cannot be used: {error}") from error
    path = Path(name)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if num_bytes:
            # Writing to a mapped page that has no room on the disk would end the process (SIGBUS).
            os.posix_fallocate(descriptor, 0, num_bytes)
        return UnfinishedFile(path, descriptor, num_bytes, key)
    except OSError as error:
        path.unlink(missing_ok=True)
        os.close(descriptor)
        raise CannotKeep(f"{folder} cannot hold {num_bytes} bytes: {error}") from error


def _tidy(folder: Path) -> None:
    """Remove what killed runs left, and what nobody has used for long."""
    for path in folder.glob("*.partial"):
        if _owner_is_gone(path):
            path.unlink(missing_ok=True)
    for path in folder.glob("*.cache"):
        with contextlib.suppress(OSError):  # another run removed it first
            if time.time() - path.stat().st_mtime > _KEPT_DAYS * 86400:
                path.unlink()


def _owner_is_gone(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        if time.time() - os.fstat(descriptor).st_ctime < _LOCKED_BY_S:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _read(file: int, key: str, num_bytes: int) -> SharedBlock:
    """The mapped memory of a file; ValueError if it is not what is expected."""
    length = os.fstat(file).st_size
    if length != num_bytes + _DIGEST_BYTES:
        raise ValueError(f"it is {length} bytes long and should be {num_bytes + _DIGEST_BYTES}")
    block = SharedBlock(num_bytes, file=file, read_only=True)
    if os.pread(file, _DIGEST_BYTES, num_bytes) != _digest(key, block):
        raise ValueError("its bytes have changed")
    return block


def _digest(key: str, block: SharedBlock) -> bytes:
    checksums = of_bytes(memoryview(block.pages)[: block.num_bytes])
    return hashlib.blake2b(repr((key, checksums)).encode(), digest_size=_DIGEST_BYTES).digest()
