"""The first items of a data set -> a store for all of them, in memory or in a file; or a full one off the disk."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hotlap.data.checks.checksums import Unseen
from hotlap.data.item.codec import pack
from hotlap.data.item.compare import Unsupported
from hotlap.data.item_cache.disk import DiskCache, DiskUnavailable, UnfinishedFile
from hotlap.data.item_cache.memory import ALLOWANCE
from hotlap.data.item_cache.records import SharedRecords, expected_bytes
from hotlap.data.item_cache.store import ColumnStore, RecordStore, Store
from hotlap.folders import lies_in_memory
from hotlap.units import size


@dataclass(slots=True, kw_only=True)
class OpenStore:
    """A store, and the file behind it."""

    store: Store
    unfinished: UnfinishedFile | None = None
    """What it is written to."""
    full: bool = False
    """It came off the disk with all items."""
    notes: list[str] = field(default_factory=list)

    def publish(self, differ: Callable[[], str | None]) -> None:
        """All items are there: let the next run find them, unless what they are made from differs from the key's."""
        if self.unfinished is None:
            return
        try:
            if differ() is None:
                self.unfinished.publish()
            else:
                self.notes.append("the cache is not kept on disk: it was changed while its items were computed")
        except DiskUnavailable as reason:
            self.notes.append(str(reason))
        self.close()

    def close(self) -> None:
        """Give up the unfinished, if it was not published; memory that tensors lie in stays."""
        if self.unfinished is not None:
            self.unfinished.close()
            self.unfinished = None


def open_store(
    items: Sequence[Any],
    length: int,
    *,
    limit_bytes: int,
    own_memory: bool,
    key: Callable[[], str] | None,
    disk: DiskCache,
    as_bytes: bool,
) -> OpenStore:
    """A store for `length` items like these; `Unsupported` says why there is none.

    Arguments:
        limit_bytes: memory that may be used.
        own_memory: items share memory with the data set or with each other: only whole batches can be kept.
        key: under which the next run is to find it, of all that items are made from; None: it is not to.
        disk: for that.
        as_bytes: pictures may be kept as bytes.
    """
    make = partial(ColumnStore, items[0], as_bytes=as_bytes)
    try:
        columns = make(0)
        if not own_memory and not columns.fits(items):
            return open_records(items, length, limit_bytes)
    except Unsupported:
        if own_memory:
            raise Unsupported("its items share memory with the data set, so that copies could be told") from None
        return open_records(items, length, limit_bytes)
    needed_bytes = length * columns.item_bytes
    opened = OpenStore(store=columns)
    if key is not None and _on_disk(disk, key, make, length, opened, limit_bytes):
        return opened
    if needed_bytes > limit_bytes:
        in_a_file = "" if key is not None else "; cached(..., disk=True) keeps them in a file"
        raise Unsupported(f"{_too_much(needed_bytes, limit_bytes)}{in_a_file}")
    opened.store = make(length)
    ALLOWANCE.take(opened.store, needed_bytes)
    return opened


def open_records(
    items: Sequence[Any], length: int, limit_bytes: int, *, halves: bool = False, entry_bytes: int | None = None
) -> OpenStore:
    """A store for `length` items like these, each by itself.

    Arguments:
        limit_bytes: memory that may be used.
        halves: see `RecordStore`; as many as memory holds.
        entry_bytes: what one takes on average; None: as these do.

    Raises:
        Unsupported: there is no room.
    """
    if entry_bytes is None:
        entry_bytes = sum(len(part) for item in items for part in pack(item)) // len(items)
    wanted, notes = expected_bytes(length, entry_bytes), list[str]()
    if wanted > limit_bytes:
        if not halves:
            raise Unsupported(_too_much(wanted, limit_bytes))
        notes.append(f"{_too_much(wanted, limit_bytes)}: as many as that are kept")
        wanted = limit_bytes
    # Items that turn out larger may take what else is free; of memory only the pages that are written to are taken.
    store = RecordStore(SharedRecords(length, wanted if halves else limit_bytes), halves=halves)
    ALLOWANCE.take(store, wanted)
    return OpenStore(store=store, notes=notes)


def _too_much(wanted_bytes: int, limit_bytes: int) -> str:
    return f"its items take about {size(wanted_bytes)}, and {size(limit_bytes)} of memory may be used"


def take(store: object, needed_bytes: int, limit_bytes: int) -> None:
    """Memory for a store; `Unsupported` if there is not as much."""
    if needed_bytes > limit_bytes:
        raise Unsupported(_too_much(needed_bytes, limit_bytes))
    ALLOWANCE.take(store, needed_bytes)


def _on_disk(
    disk: DiskCache,
    key: Callable[[], str],
    make: Callable[..., ColumnStore],
    length: int,
    opened: OpenStore,
    limit_bytes: int,
) -> bool:
    """Take the full store off the disk, or begin one for it; False, with a note, if that is not possible."""
    columns = make(0)
    total, in_memory = columns.block_bytes(length), lies_in_memory(disk.folder)
    try:
        if total > limit_bytes and in_memory:
            raise DiskUnavailable(f"{disk.folder} lies in memory itself")
        name = f"{key()}-{zlib.crc32(columns.layout.encode()):08x}"
        try:
            block = disk.find(name, total)
        except DiskUnavailable as reason:
            opened.notes.append(str(reason))
            block = None
        opened.full = block is not None
        if block is None:
            opened.unfinished = disk.unfinished(name, total)
            block = opened.unfinished.block
    except (DiskUnavailable, Unseen) as reason:
        opened.notes.append(f"the cache is not kept on disk: {reason}")
        return False
    opened.store = make(length, block.allocate)
    if in_memory and not opened.full:
        ALLOWANCE.take(opened.store, total)
    return True
