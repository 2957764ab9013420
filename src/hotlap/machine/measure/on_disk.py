"""The disk: how fast a file is read that is not in memory, as far as the system lets us say so."""

import mmap
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from hotlap.machine import figures
from hotlap.machine.measure.pace import Pace
from hotlap.record import Figure, Unit

_CHUNK = 4 << 20


def measure(pace: Pace, folder: Path) -> Iterator[Figure]:
    """Reads a file of our own in `folder`, several times.

    First choice is O_DIRECT, which passes the system's cache by. Where a file system refuses it, the pages of the file
    are dropped (posix_fadvise DONTNEED) before each reading, which the system may ignore. A disk in a virtual machine
    may still be cached by its host: nobody inside can tell.
    """
    if not hasattr(os, "posix_fadvise"):
        return
    with tempfile.NamedTemporaryFile(dir=folder, prefix="hotlap-disk-") as file:
        # Random bytes: a file of zeros may be compressed, or never written at all.
        block = os.urandom(_CHUNK)
        for _ in range(pace.disk_bytes // _CHUNK):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        taken, how = _times(file.name, pace)
    if taken:
        yield figures.rate(
            "disk-read",
            float(pace.disk_bytes // _CHUNK * _CHUNK),
            taken,
            unit=Unit.BYTE_PER_S,
            device="disk",
            how=f"{pace.disk_bytes >> 20} MiB on {_file_system(folder)}, {how}",
        )


def _file_system(folder: Path) -> str:
    """ "ext4", "nfs4", ...; "tmpfs" is memory."""
    place = folder.resolve()
    mounts = [part for part in psutil.disk_partitions(all=True) if place.is_relative_to(part.mountpoint)]
    return max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else "an unknown file system"


def _times(name: str, pace: Pace) -> tuple[list[float], str]:
    repeats = figures.LEAST_REPEATS
    try:
        return [_read(name, os.O_DIRECT) for _ in range(repeats)], "O_DIRECT: past the system's cache"
    except (OSError, AttributeError):
        return [
            _read(name, 0) for _ in range(repeats)
        ], "after posix_fadvise DONTNEED: the cache was asked to forget it"


def _read(name: str, flags: int) -> float:
    """Seconds to read the file once."""
    descriptor = os.open(name, os.O_RDONLY | flags)
    # Memory of our own that begins at a page: O_DIRECT wants that.
    buffer = mmap.mmap(-1, _CHUNK)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        begun = time.perf_counter()
        while os.readv(descriptor, [buffer]):
            pass
        return time.perf_counter() - begun
    finally:
        buffer.close()
        os.close(descriptor)
