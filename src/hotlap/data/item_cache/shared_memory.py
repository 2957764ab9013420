"""Memory that processes share: for columns, which a file can have as well, for entries of any length, and for what is
noted there of the items in them.

Private memory of this process cannot be filled by forked ones, and is gone when the process is. An entry, or an item,
counts as written only when that is noted, which is the last thing that is done: a process that is killed leaves nothing
but some bytes that nobody uses.
"""

import fcntl
import mmap
import os
import struct
import weakref
from math import prod
from typing import Any, final

import numpy as np
import torch

# Each column begins on a page of its own, parts of an entry at multiples of this, as memory from torch does.
_PAGE_BYTES, _ALIGN_BYTES = 4096, 64

# Entries of the table of records in front of the places.
_FIRST = 1

_COUNT, _LENGTH = struct.Struct("<q"), struct.Struct("<H")
_TEXT_BYTES = 1024


@final
class SharedBlock:
    """Pages for some tensors that forked processes share: anonymous ones, or those of a file that is as long."""

    def __init__(self, num_bytes: int, *, file: int | None = None, read_only: bool = False) -> None:
        # copy-on-write for a finished file: whatever happens in this process, the file stays as it was checked
        mode = {"access": mmap.ACCESS_COPY} if read_only else {}
        self.pages = mmap.mmap(-1 if file is None else file, max(1, num_bytes), **mode)
        self.num_bytes = num_bytes
        self._used_bytes = 0

    def allocate(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """The next part of the block. It stays mapped as long as a tensor lies in it."""
        numel = prod(shape)
        if numel == 0:
            return torch.empty(shape, dtype=dtype, device="cpu")
        tensor: Any = torch.frombuffer(self.pages, dtype=dtype, count=numel, offset=self._used_bytes)
        self._used_bytes += whole_pages(numel * tensor.element_size())
        whole: torch.Tensor = tensor.view(shape)
        return whole


def shared_tensor(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A tensor on pages of its own that forked processes share."""
    return SharedBlock(prod(shape) * dtype.itemsize).allocate(shape, dtype)


def whole_pages(num_bytes: int) -> int:
    """Bytes of the pages that so many bytes lie on."""
    return _rounded_up(num_bytes, _PAGE_BYTES)


def _rounded_up(num_bytes: int, multiple: int) -> int:
    return -(-num_bytes // multiple) * multiple


@final
class Progress:
    """Which of N items are kept, and why none may be. Made before processes fork; each of them may write."""

    def __init__(self, num_items: int, *, full: bool = False) -> None:
        self._pages = mmap.mmap(-1, _TEXT_BYTES + max(1, num_items))
        self.present: Any = np.frombuffer(self._pages, np.bool_, num_items, _TEXT_BYTES)
        """(N,) True for an item that is there: set when all of it is written."""
        self.present[:] = full

    @property
    def refusal(self) -> str | None:
        """Why some process found that no item may be handed out; None if none did."""
        (length,) = _LENGTH.unpack_from(self._pages)
        return self._pages[_LENGTH.size : _LENGTH.size + length].decode(errors="replace") if length else None

    def refuse(self, reason: str) -> None:
        """For all processes; the first reason stays."""
        if self.refusal is None:
            text = reason.encode()[: _TEXT_BYTES - _LENGTH.size]
            self._pages[_LENGTH.size : _LENGTH.size + len(text)] = text
            _LENGTH.pack_into(self._pages, 0, len(text))


@final
class SharedRecords:
    """Places 0 to N - 1, each empty or with the parts of an entry. Made before processes fork."""

    def __init__(self, num_places: int, limit_bytes: int) -> None:
        self.num_places = num_places
        self.limit_bytes = limit_bytes
        # Of a memory file only the pages that are written to take memory, however long it is.
        self._descriptor = os.memfd_create("hotlap", os.MFD_CLOEXEC)
        weakref.finalize(self, os.close, self._descriptor).atexit = False  # the mapping stays as long as a view of it
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
        sizes = [_rounded_up(len(head), _ALIGN_BYTES), *(_rounded_up(len(view), _ALIGN_BYTES) for view in views)]
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
        at += _rounded_up(8 * (1 + count), _ALIGN_BYTES)
        parts = []
        for length in lengths:
            parts.append(whole[at : at + length].toreadonly())
            at += _rounded_up(length, _ALIGN_BYTES)
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


def expected_bytes(num_entries: int, num_bytes: int) -> int:
    """What so many entries, in a few parts each, may take, of which some have so many bytes on average: others may have
    more."""
    return int(1.2 * num_entries * (num_bytes + 256)) + (1 << 16)
