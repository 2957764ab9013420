"""The folder in which trials leave what they write: chosen for its room, watched while they run, gone afterwards."""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hotlap.errors import UserError
from hotlap.folders import cache_folder, file_system, lies_in_memory, room_bytes
from hotlap.launch.reaper import delete
from hotlap.units import size

_PREFIX = "hotlap-"
_LOCK = "lock"

# What is left to everybody else on that disk, or in memory. A disk takes 2 GB/s, so this passes between two looks.
_LEFT_BYTES = 256 << 20
_LEFT_SHARE = 0.05

# A look takes 0.2 ms; a tenth of a percent of one core.
_LOOK_S = 0.25

# An overlay cannot have its upper layer there. https://docs.kernel.org/filesystems/overlayfs.html#upper-and-lower
_NO_UPPER = ("overlay", "nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre", "vfat", "exfat")

_SHARED_MEMORY = Path("/dev/shm")


class OwnFolder:
    """A new folder of this process in `base` (None: where temporary files go); what earlier processes left behind,
    because they were killed, is removed by `remove_abandoned`."""

    def __init__(self, base: Path | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        self._lock = _locked(self.folder)

    def close(self) -> None:
        """Nothing is left."""
        delete(self.folder)
        if self._lock is not None:
            self._lock.close()
            self._lock = None


class Scratch(OwnFolder):
    """The folder in which trials leave what they write.

    Arguments:
        covered: the user's folders (resolved): the scratch lies outside of them, so that a layer never covers itself.

    Raises:
        UserError: there is no such place with room.
    """

    def __init__(self, covered: tuple[str, ...]) -> None:
        remove_abandoned()
        super().__init__(_base(covered))
        self._looked_s = 0.0

    def check(self, *, now: bool = False) -> None:
        """Call often: every so often, or `now`, it looks whether there is still room.

        Raises:
            UserError: there is none.
        """
        time_s = time.monotonic()
        if not now and time_s < self._looked_s + _LOOK_S:
            return
        self._looked_s = time_s
        room = room_bytes(self.folder)
        if room < _least_bytes(self.folder):
            where = " (in memory)" if lies_in_memory(self.folder) else ""
            raise UserError(
                f"What the script wrote in its trial leaves only {size(room)} in {self.folder.parent}{where}, where it "
                "is kept until the trial ends. Free some room there, or set TMPDIR to a folder with more."
            )


def _base(covered: tuple[str, ...]) -> Path:
    """The best place outside of `covered`.

    A folder that the user named in TMPDIR; else the first one on a disk, because checkpoints may be larger than
    memory; else one in memory; else one that layers cannot lie on; /dev/shm last, for the loaders need that.
    """
    refused: list[str] = []
    for folder in sorted(_candidates(), key=_rank):
        why_not = _why_not(folder, covered)
        if why_not is None:
            return folder.resolve()
        refused.append(why_not)
    raise UserError(
        f"There is no folder for what the script writes in its trials: {', '.join(dict.fromkeys(refused))}. Free "
        "some room, or set TMPDIR to another folder."
    )


def _why_not(folder: Path, covered: tuple[str, ...]) -> str | None:
    if any(folder.resolve().is_relative_to(other) for other in covered):
        return f"{folder} is the training's own"
    if not _can_be_written(folder):
        return f"{folder} cannot be written"
    room = room_bytes(folder)
    return f"{folder} has only {size(room)} left" if room < _least_bytes(folder) else None


def _candidates() -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError):  # there is none that can be written
        yield Path(tempfile.gettempdir())
    yield from (Path("/tmp"), Path("/var/tmp"), cache_folder(), _SHARED_MEMORY)


def _can_be_written(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _rank(folder: Path) -> int:
    """The lower, the better."""
    if folder == Path(os.environ.get("TMPDIR", "")):
        return 0
    if folder == _SHARED_MEMORY:
        return 4
    kind = file_system(folder)
    if kind in _NO_UPPER or kind.startswith("fuse"):
        return 3
    return 2 if lies_in_memory(folder) else 1


def _least_bytes(folder: Path) -> int:
    """Room that trials must leave."""
    return min(_LEFT_BYTES, int(_LEFT_SHARE * shutil.disk_usage(folder).total))


def _token(folder: Path) -> bytes:
    """What the lock of such a folder holds: nobody else's file does, and no copy of the folder."""
    return b"scratch of hotlap in " + os.fsencode(folder.name)


def _locked(folder: Path) -> "IO[bytes] | None":
    """Marks the folder as in use until this process ends, however it does."""
    # Locked before it has its name: a folder that has a lock which nobody holds is an abandoned one.
    draft = folder / f"{_LOCK}.draft"
    file = draft.open("wb", buffering=0)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.write(_token(folder))
        draft.rename(folder / _LOCK)
    except OSError:  # a file system without locks
        file.close()
        return None
    return file


def remove_abandoned() -> None:
    """Folders of ours whose processes were killed. (What these had started ended with them.)"""
    for base in _candidates():
        for folder in base.glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError):
                _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> None:
    # Anybody may put anything into a folder for temporary files, and call it as we do.
    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or not (folder / _LOCK).is_file():
        return
    with (folder / _LOCK).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if lock.read(len(_token(folder)) + 1) == _token(folder):
            delete(folder)
