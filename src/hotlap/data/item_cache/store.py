"""Where all items of a data set are kept: by column, gathered a batch at a time, or one by one; in memory that forked
processes share, or in a file."""

import fcntl
import mmap
import os
import struct
import weakref
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, final

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten
from torch.utils.data import default_collate

from hotlap.data.item.codec import CannotKeep, flatten_batch, pack, same, unpack
from hotlap.data.item_cache.columns import Allocate, Column, Varies, column_for
from hotlap.data.item_cache.shared_memory import rounded_up, shared_tensor
from hotlap.units import size

# Parts of a record begin at multiples of this, as memory from torch does.
_ALIGN_BYTES = 64


@final
class ColumnStore:
    """Items that are all built alike, at positions 0 to N - 1: each leaf in one contiguous array, a batch is one gather
    per leaf."""

    def __init__(self, sample: Any, num_items: int, allocate: Allocate = shared_tensor, *, as_bytes: bool) -> None:
        """Arguments as of `column_for`."""
        leaves, self._structure = tree_flatten(sample)
        self._is_flat = type(sample) is tuple and len(leaves) == len(sample) > 0 and all(map(is_, leaves, sample))
        self.columns = [column_for(leaf, num_items, allocate, as_bytes=as_bytes) for leaf in leaves]
        """One for each leaf of an item."""
        self._batches: dict[tuple[int, torch.dtype], tuple[TreeSpec] | None] = {}
        self.item_bytes = sum(column.item_bytes for column in self.columns)

    @property
    def layout(self) -> str:
        """What the allocated bytes mean; equal layouts can share them."""
        return "; ".join([repr(self._structure), *(column.layout for column in self.columns)])

    def put(self, positions: Sequence[int], items: Sequence[Any]) -> Sequence[int]:
        """Keep copies of all; `Varies` for an item that does not fit."""
        index = torch.tensor(positions, dtype=torch.int64, device="cpu")
        for column, values in zip(self.columns, self.values(items), strict=True):
            column.put(index, values)
        return positions

    def values(self, items: Sequence[Any]) -> list[list[Any]]:
        """(B,) of each column; `Varies` if an item is built otherwise."""
        if self._is_flat and set(map(type, items)) == {tuple} and set(map(len, items)) == {len(self.columns)}:
            values = [*map(list, zip(*items, strict=True))]  # leaves by their kind, as a column accepts no container
        else:
            rows = [tree_flatten(item) for item in items]
            if not all(structure == self._structure for _, structure in rows):
                raise Varies
            values = [*map(list, zip(*(leaves for leaves, _ in rows), strict=True))]
        return [column.plain(some) for column, some in zip(self.columns, values, strict=True)]

    def take(self, positions: Sequence[int]) -> list[Any]:
        """Independent items, as they were put in."""
        wanted = list(positions)
        taken = [column.take(wanted) for column in self.columns]
        rows = zip(*taken, strict=True) if taken else [()] * len(wanted)
        return [tree_unflatten(leaves, self._structure) for leaves in rows]

    def gather(
        self, index: torch.Tensor, *, promise: Callable[[Column], Any] = lambda column: None
    ) -> tuple[Any] | None:
        """(the batch,), one gather per leaf; None if torch itself must collate true items.

        Arguments:
            index: (B,) positions.
            promise: column -> what stands for its part of the batch, or None.
        """
        case = (index.numel(), torch.get_default_dtype())
        if case not in self._batches:
            self._batches[case] = self._check(index)
        built = self._batches[case]
        if built is None:
            return None
        leaves = []
        for column in self.columns:
            promised = promise(column)
            leaves.append(column.gather(index) if promised is None else promised)
        return (tree_unflatten(leaves, built[0]),)

    def _check(self, index: torch.Tensor) -> tuple[TreeSpec] | None:
        """(how torch itself builds a batch of this size,), once for each; None if a gather does not agree in all."""
        try:
            leaves, structure = flatten_batch(default_collate(self.take(index.tolist())))
        except (TypeError, RuntimeError, ValueError):
            return None
        if len(leaves) != len(self.columns):
            return None
        for column, expected in zip(self.columns, leaves, strict=True):
            if not same(column.gather(index), expected):
                return None
        return (structure,)

    def holds(self, position: int, item: Any) -> bool:
        """True if the kept item has the same types and bytes."""
        return same(self.take([position])[0], item)


@final
class RecordStore:
    """Items that differ in shape or structure: each a record of its own, which is read out anew. As `ColumnStore`.

    A record counts as written only when its place is noted, which is the last thing that is done. A process that is
    killed leaves nothing but some bytes that nobody uses.
    """

    def __init__(self, num_items: int, limit_bytes: int, *, halves: bool = False) -> None:
        """`halves`: they are handed to more transforms. As many as fit will do, and their pictures are lazy ones."""
        self.limit_bytes = limit_bytes
        self.halves = halves
        # Of a memory file only the pages that are written to take memory, however long it is.
        self._descriptor = os.memfd_create("hotlap", os.MFD_CLOEXEC)
        weakref.finalize(self, os.close, self._descriptor).atexit = False  # the mapping stays as long as a view of it
        os.ftruncate(self._descriptor, max(1, limit_bytes))
        self._data = mmap.mmap(self._descriptor, max(1, limit_bytes))
        self._table: Any = shared_tensor((1 + num_items,), torch.int64).numpy()
        """(1 + N,) used bytes, then for each item where its record begins; 0: it has none."""
        self._table[0] = _ALIGN_BYTES

    def needed_bytes(self, num_kept: int) -> int:
        """Memory for all items, by what is kept of some of them."""
        return int(self._table[0]) * (len(self._table) - 1) // num_kept

    def put(self, positions: Sequence[int], items: Sequence[Any]) -> Sequence[int]:
        """Keep copies; `CannotKeep` where there is no room for all, and all are wanted."""
        records = [_record(item) for item in items]
        places = self._reserve([sum(rounded_up(len(part), _ALIGN_BYTES) for part in record) for record in records])
        kept = list[int]()
        for position, record, place in zip(positions, records, places, strict=True):
            if place is not None:
                self._write(position, record, place)
                kept.append(position)
        if len(kept) < len(positions) and not self.halves:
            raise CannotKeep(f"it would take more than the {size(self.limit_bytes)} set aside for it")
        return kept

    def take(self, positions: Sequence[int]) -> list[Any]:
        """Independent items, as they were put in."""
        return [unpack(self._read(position), lazily=self.halves) for position in positions]

    def gather(self, index: torch.Tensor) -> tuple[Any] | None:
        """Always None: only torch itself can tell what it makes of such items."""
        return None

    def holds(self, position: int, item: Any) -> bool:
        """True if the kept item has the same types and bytes."""
        return same(self.take([position])[0], item)

    def _write(self, position: int, record: list[memoryview], place: int) -> None:
        at = place
        for part in record:
            self._data[at : at + len(part)] = part
            at += rounded_up(len(part), _ALIGN_BYTES)
        self._table[1 + position] = place

    def _read(self, position: int) -> list[Any]:
        """Read-only views of a record's parts."""
        at, whole = int(self._table[1 + position]), memoryview(self._data)
        assert at, "an item is asked for only once it is kept"
        (count,) = struct.unpack_from("<q", whole, at)
        lengths = struct.unpack_from(f"<{count}q", whole, at + 8)
        at += rounded_up(8 * (1 + count), _ALIGN_BYTES)
        parts = []
        for length in lengths:
            parts.append(whole[at : at + length].toreadonly())
            at += rounded_up(length, _ALIGN_BYTES)
        return parts

    def _reserve(self, lengths: Sequence[int]) -> list[int | None]:
        """Where there is room for so many bytes each; None: nowhere."""
        # Of an opening of its own: locks of a process (`lockf`) do not exclude its threads, and one of an opening that
        # copies of this process share (`flock` on the descriptor itself) does not exclude these. It ends with us.
        lock = os.open(f"/proc/self/fd/{self._descriptor}", os.O_RDWR | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            places: list[int | None] = []
            for length in lengths:
                start = int(self._table[0])
                fits = start + length <= self.limit_bytes
                places.append(start if fits else None)
                self._table[0] += length * fits
            return places
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # also of a copy that was made just now, and has this opening
            os.close(lock)


def _record(item: Any) -> list[memoryview]:
    """Its parts, and in front of them how many they are and how long."""
    parts = [memoryview(part).cast("B") for part in pack(item)]
    return [memoryview(struct.pack(f"<{1 + len(parts)}q", len(parts), *map(len, parts))), *parts]


Store = ColumnStore | RecordStore


def too_much(wanted_bytes: int, limit_bytes: int) -> str:
    """Why there is no room."""
    return f"its items take about {size(wanted_bytes)}, and {size(limit_bytes)} of memory may be used"
