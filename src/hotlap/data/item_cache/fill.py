"""The store of a data set's items: made, found on disk, filled by other processes, and given up."""

import operator
import os
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hotlap import at_work
from hotlap.data.checks.inputs import Inputs
from hotlap.data.item.codec import CannotKeep, pack
from hotlap.data.item_cache import disk
from hotlap.data.item_cache.columns import Varies
from hotlap.data.item_cache.disk import UnfinishedFile
from hotlap.data.item_cache.memory import ALLOWANCE, default_folder, limit_bytes
from hotlap.data.item_cache.shared_memory import Progress, SharedBlock, whole_pages
from hotlap.data.item_cache.store import ColumnStore, RecordStore, Store, too_much
from hotlap.data.loader.fetch import fetches_whole_batches, is_index_tensor
from hotlap.folders import lies_in_memory


class CacheFill:
    """Where items are, and who computes them ahead. What may be kept at all is decided by `ItemCache`."""

    def __init__(self, dataset: Any, *, memory_bytes: int | None, disk: bool | str | Path) -> None:
        self.dataset = dataset
        self.memory_bytes = memory_bytes
        self.disk = disk
        self.as_bytes = True
        """Pictures may be kept as bytes: not where rows are wanted elsewhere."""
        self.note: str | None = None
        self.given_up = False
        self.whole = fetches_whole_batches(dataset)
        self._lock = threading.RLock()
        self._ahead = False
        """This process is one that fills the cache."""
        self._process = os.getpid()
        self._unfinished: UnfinishedFile | None = None
        """What the store is written to."""
        self._limit_bytes = 0
        self.item_s = 0.0
        self._forget()

    def _forget(self) -> None:
        """Begin with nothing."""
        self._stop()
        self.store: Store | None = None
        self.progress = Progress(0)
        self.inputs: Inputs | None = None
        """What items are made from, since one was computed."""
        self._key: Callable[[], str] | None = None
        """Of what items are made from, where the next run is to find them."""
        self.index_types: set[type] = set()
        """Of indices that are known to mean the item of that place."""
        self._before_first = True
        """No item was computed here since the data set was looked at."""
        self._asked = 0
        """Items that were asked for since it was empty."""
        self.own_memory = False
        """Items share memory with the data set, or with each other."""
        self.warm = False
        """True if the items were found on disk."""
        self._full = False

    @property
    def num_cached(self) -> int:
        """Items kept now, by whichever process computed them."""
        return int(np.count_nonzero(self.present))

    @property
    def full(self) -> bool:
        """True if every item is kept."""
        return self._full or self.look_if_full()

    def look_if_full(self) -> bool:
        """Whether every item is kept now; if so, the process that made the store lets the next run find them."""
        if not self._full and self.store is not None and self.present.all():
            self._full = True
            if self._unfinished is not None and self.inputs is not None and not self.in_copy:
                reason = self._unfinished.publish(self.inputs.why_not_left)
                self._unfinished = None
                if reason is not None:
                    self._say_of_store(reason)
        return self._full

    @property
    def present(self) -> Any:
        """(N,) True for an item that is kept."""
        return self.progress.present

    @property
    def in_copy(self) -> bool:
        """True in a process that was forked since: what it keeps elsewhere than in the store is lost with it."""
        return self._process != os.getpid()

    @property
    def name(self) -> str:
        """Of the class of the data set."""
        return type(self.dataset).__name__

    def say(self, note: str) -> None:
        """Something that the user should know."""
        self.note = note
        at_work.note(note)

    def _say_of_store(self, note: str) -> None:
        self.say(f"{self.name}: {note}")

    def open(self, items: list[Any], length: int, *, shared: bool = False) -> None:
        """Choose and make the store, if it fits into memory or on disk; `shared`: for workers."""
        self._limit_bytes, self.warm = limit_bytes(self.memory_bytes), False
        try:
            self.store = self._make_store(items, length, shared=shared)
        except CannotKeep as unsupported:
            self.give_up(f"{self.name} is not kept: {unsupported}")
        except (MemoryError, RuntimeError, OSError) as error:
            self.give_up(f"{self.name} is not kept: its memory could not be had ({error})")
        else:
            self.progress, self._full = Progress(length, full=self.warm), self.warm

    def _make_store(self, items: list[Any], length: int, *, shared: bool) -> Store:
        """For `length` items like these; `CannotKeep` says why there is none."""
        make = partial(ColumnStore, items[0], as_bytes=self.as_bytes and not shared)
        try:
            columns = make(0)
            if not self.own_memory:  # else whole batches alone are handed out
                columns.values(items)
        except (CannotKeep, Varies):
            if self.own_memory:
                raise CannotKeep("its items share memory with the data set, so that copies could be told") from None
            return self._records(items, length)
        if self._key is not None:
            try:
                return self._on_disk(make, length, self._key())
            except CannotKeep as reason:
                self._say_of_store(f"the cache is not kept on disk: {reason}")
        needed_bytes = length * columns.item_bytes
        if needed_bytes > self._limit_bytes:
            in_a_file = "" if self._key is not None else "; cached(..., disk=True) keeps them in a file"
            raise CannotKeep(f"{too_much(needed_bytes, self._limit_bytes)}{in_a_file}")
        store = make(length)
        ALLOWANCE.take(store, needed_bytes)
        return store

    def _on_disk(self, make: Callable[..., ColumnStore], length: int, key: str) -> ColumnStore:
        """The full store off the disk, or one that is written there; `CannotKeep` says why neither is possible."""
        folder = default_folder() if isinstance(self.disk, bool) else Path(self.disk)
        columns = make(0)
        total = sum(whole_pages(length * column.item_bytes) for column in columns.columns)
        in_memory = lies_in_memory(folder)
        if total > self._limit_bytes and in_memory:
            raise CannotKeep(f"{folder} lies in memory itself")
        found = disk.opened(folder, f"{zlib.crc32(columns.layout.encode()):08x}-{key}", total, self._say_of_store)
        if isinstance(found, SharedBlock):
            self.warm = True
            return make(length, found.allocate)
        self._unfinished = found
        store = make(length, found.block.allocate)
        if in_memory:
            ALLOWANCE.take(store, total)
        return store

    def _records(
        self, items: list[Any], length: int, *, halves: bool = False, entry_bytes: int | None = None
    ) -> RecordStore:
        """For `length` items like these, each by itself; `CannotKeep`: there is no room. `halves`: as many as memory
        holds; `entry_bytes`: what one takes on average, if not as these do."""
        if entry_bytes is None:
            entry_bytes = sum(len(part) for item in items for part in pack(item)) // len(items)
        # In a few parts each; others may have more.
        wanted = int(1.2 * length * (entry_bytes + 256)) + (1 << 16)
        if wanted > self._limit_bytes:
            reason = too_much(wanted, self._limit_bytes)
            if not halves:
                raise CannotKeep(reason)
            self._say_of_store(f"{reason}: as many as that are kept")
            wanted = self._limit_bytes
        # Items that turn out larger may take what else is free; of memory only the pages that are written to are taken.
        store = RecordStore(length, wanted if halves else self._limit_bytes, halves=halves)
        ALLOWANCE.take(store, wanted)
        return store

    def leave_disk(self, items: list[Any], length: int, *, shared: bool = False) -> None:
        """Begin anew in memory: what another run left is of other items."""
        self._stop()
        self._key = None
        self.open(items, length, shared=shared)
        self.say(f"the cache of {self.name} on disk holds other items than it has now, so it is not used")

    def _stop(self) -> None:
        """Give the file up."""
        if self._unfinished is not None and not self.in_copy:
            self._unfinished.close()
        self._unfinished = None

    def give_up(self, reason: str) -> None:
        """Hand out true items from now on."""
        with self._lock:
            if self.store is not None:
                self.progress.refuse(reason)
            self._forget()
            self.given_up = True
            self.say(reason)

    def _put(self, indices: Sequence[Any], items: list[Any], rows: Sequence[int]) -> None:
        try:
            new = dict(self._absent(indices, items, rows))
            if new:
                self._put_new(list(new), list(new.values()))
        except (CannotKeep, MemoryError, RuntimeError) as error:  # torch has not every operation for every dtype
            self.give_up(f"{self.name} is not kept: {error}")

    def _absent(self, indices: Sequence[Any], items: list[Any], rows: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """(place, item) of what is not kept yet."""
        for row in rows:
            if self._ahead:  # it asks for such alone
                yield indices[row], items[row]
                continue
            position = self.position(indices[row])
            if position is None:
                continue
            if type(indices[row]) not in self.index_types:
                # An index of another type (a tensor, a NumPy integer) may mean another item: served once seen not to.
                if self.store is not None and self.present[position] and self.store.holds(position, items[row]):
                    self.index_types.add(type(indices[row]))
            elif not self.present[position]:
                yield position, items[row]

    def _put_new(self, positions: list[int], items: list[Any]) -> None:
        store = self.store
        if store is None:
            return
        try:
            kept = store.put(positions, items)
        except Varies:
            if self._ahead:
                raise  # the training process meets it, and knows what to do
            self._stop()
            store = self._keep_one_by_one(items)
            kept = store.put(positions, items)
        self.present[kept] = True
        if not self._ahead:
            self.look_if_full()
        if isinstance(store, RecordStore) and not store.halves:
            needed_bytes = store.needed_bytes(self.num_cached)
            if needed_bytes > self._limit_bytes:
                raise CannotKeep(too_much(needed_bytes, self._limit_bytes))
            ALLOWANCE.take(store, needed_bytes)

    def _keep_one_by_one(self, items: list[Any]) -> Store:
        """Begin anew, now that an item is built otherwise than those before it."""
        if self.own_memory:
            raise CannotKeep("its items differ in structure, and share memory with the data set")
        if self.in_copy:
            raise CannotKeep("its items differ in structure")
        self.store = self._records(items, len(self.present))
        self.progress = Progress(len(self.present))
        return self.store

    def position(self, index: Any) -> int | None:
        """The place of an item, for indices that can only mean that one."""
        if type(index) is not int and not isinstance(index, np.integer) and not is_index_tensor(index):
            return None
        length = self.inputs.watch.length if self.inputs is not None else None
        position = operator.index(index)
        return position if length is not None and 0 <= position < length else None

    def _note(self) -> None:
        """Take what items are made from as it is now."""
        if self.inputs is None:  # it was dropped while an item was computed
            self.inputs = Inputs(self.dataset)
        else:
            self.inputs.note()


def spread(length: int, number: int) -> list[int]:
    """So many positions, or as many as there are."""
    return sorted({place * length // number for place in range(number)})
