"""Entries of any length in memory that processes share: written once, by whoever has one first.

An entry counts as written only when its place is noted, which is the last thing that is done. A process that is killed
leaves nothing but some bytes that nobody uses.
"""

import fcntl
import mmap
import os
import struct
from typing import Any, final

import numpy as np

# Parts begin at multiples of this, as memory from torch does.
_ALIGN_BYTES = 64

# Entries of the table in front of the places.
_FIRST = 1

_COUNT = struct.Struct("<q")


@final
class SharedRecords:
    """Places 0 to N - 1, each empty or with the parts of an entry. Made before processes fork."""

    def __init__(self, num_places: int, limit_bytes: int) -> None:
        self.num_places = num_places
        self.limit_bytes = limit_bytes
        # Of a memory file only the pages that are written to take memory, however long it is.
        self._descriptor = os.memfd_create("hotlap", os.MFD_CLOEXEC)
        os.ftruncate(self._descriptor, max(1, limit_bytes))
        self._data = mmap.mmap(self._descriptor, max(1, limit_bytes))
        # Used bytes, then for each place where its entry begins; 0: it has none.
        self._notes = mmap.mmap(-1, 8 * (_FIRST + num_places))
        self._table: Any = np.frombuffer(self._notes, np.int64)
        self._table[0] = _ALIGN_BYTES

    @property
    def used_bytes(self) -> int:
        """Memory taken so far."""
        return int(self._table[0])

    def put(self, place: int, parts: list[Any]) -> bool:
        """Keep an entry; False if there is no room."""
        views = [memoryview(part).cast("B") for part in parts]
        head = _COUNT.pack(len(views)) + b"".join(_COUNT.pack(len(view)) for view in views)
        sizes = [_whole(len(head)), *(_whole(len(view)) for view in views)]
        start = self._reserve(sum(sizes))
        if start is None:
            return False
        at = start
        for view, size in zip([memoryview(head), *views], sizes, strict=True):
            self._data[at : at + len(view)] = view
            at += size
        self._table[_FIRST + place] = start
        return True

    def get(self, place: int) -> list[Any] | None:
        """Read-only views of an entry's parts."""
        at = int(self._table[_FIRST + place])
        if not at:
            return None
        whole = memoryview(self._data)
        (count,) = _COUNT.unpack_from(whole, at)
        lengths = struct.unpack_from(f"<{count}q", whole, at + 8)
        at += _whole(8 * (1 + count))
        parts = []
        for length in lengths:
            parts.append(whole[at : at + length].toreadonly())
            at += _whole(length)
        return parts

    def _reserve(self, num_bytes: int) -> int | None:
        # Of an opening of its own: locks of a process (`lockf`) do not exclude its threads, and one of an opening that
        # copies of this process share (`flock` on the descriptor itself) does not exclude these. It ends with us.
        lock = os.open(f"/proc/self/fd/{self._descriptor}", os.O_RDWR | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            start = int(self._table[0])
            if start + num_bytes > self.limit_bytes:
                return None
            self._table[0] = start + num_bytes
            return start
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # also of a copy that was made just now, and has this opening
            os.close(lock)

    def __del__(self) -> None:
        # The mapping stays as long as somebody has a view of it.
        if getattr(self, "_descriptor", -1) >= 0 and os is not None:  # at the interpreter's end names are gone first
            os.close(self._descriptor)
            self._descriptor = -1


def expected_bytes(num_entries: int, num_bytes: int) -> int:
    """What so many entries, in a few parts each, may take, of which some have so many bytes on average: others may have
    more."""
    return int(1.2 * num_entries * (num_bytes + 256)) + (1 << 16)


def _whole(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGN_BYTES) * _ALIGN_BYTES
