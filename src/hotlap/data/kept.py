"""The kept items of one data set, and the doubts about them: when they are filled, checked again, and dropped."""

import operator
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, final

import numpy as np
import torch
from torch.utils.data import get_worker_info

from hotlap.data.determinism import Streams, Watch, fetch, fetches_whole_batches
from hotlap.data.fillers import Fillers, Work, cannot_fork, wait_for
from hotlap.data.indices import is_index_tensor, positions
from hotlap.data.items import Unsupported, entangled, same, shares_memory
from hotlap.data.memory import SHARE_OF_FREE, available_bytes, usable_cores
from hotlap.data.opening import Opened, Wish, open_store, require
from hotlap.data.shelf import Shelf, default_folder
from hotlap.data.store import ItemStore, Store, Varies
from hotlap.data.warning import warn

# A kept item is computed again once in so many batches, but never for more than one part in RECHECK_SHARE of the time.
RECHECK_EVERY = 16
RECHECK_SHARE = 50

# So many items of the first batch are computed a second time before anything is kept.
NUM_FIRST_CHECKS = 2

# A data set that is changed from outside more often than this (each epoch, say) is not worth filling again.
MAX_RESTARTS = 2

# `settled` when of this many items asked for last, fewer than 1 in 100 had to be computed. An epoch need not touch
# every item: a sampler with replacement, or `drop_last`, leaves some for later.
SETTLED_WINDOW = 1024

# Below this time it would take to compute all items here, starting processes for them brings nothing: a fork of a
# process with torch takes 10 to 30 ms.
FILL_LEAST_S = 0.5

# A filling that takes less is waited for: two processes that compute and a training that computes too, with more
# threads than cores, slow each other down (a small step took 3 ms in place of 0.4 ms). A longer one goes on beside it.
FILL_WAIT_S = 5.0

# Items of a cache found on disk that are computed and compared before the first is handed out.
NUM_WARM_CHECKS = 8


@final
class Kept:
    """The kept items of one data set, and the doubts about them."""

    def __init__(self, dataset: Any, *, memory_bytes: int | None = None, disk: bool | str | Path = False) -> None:
        self.dataset = dataset
        self.memory_bytes = memory_bytes
        self.disk = disk
        self.warm = False
        """True if the items were found on disk."""
        self.note: str | None = None
        self.given_up = False
        self.full = False
        self.used = False
        """True once an item was asked for."""
        self.num_cached = 0
        self.on_note: Callable[[str], None] | None = None
        """Called with each note as it is made."""
        self._lock = threading.RLock()
        self._whole = fetches_whole_batches(dataset)
        self._watch: Watch | None = None
        self._streams = Streams()
        self._store: Store | None = None
        self._opened: Opened | None = None
        self._fillers: Fillers | None = None
        self._for_workers: Any = None
        self._present = np.zeros(0, dtype=np.bool_)
        self._own_memory = False
        self._index_types: set[type] = set()
        self._limit_bytes = 0
        self._num_computed = 0
        self._restarts = 0
        self._num_batches = 0
        self._asked = self._missed = 0
        self._hits_often = False
        self._checked_s = 0.0
        self._check_cost_s = 0.0
        self._item_s = 0.0

    @property
    def settled(self) -> bool:
        """True if it is full but for 1 item in 100, has given up, or hardly computes anything any more."""
        if self._fillers is not None:
            self._absorb(self._fillers.poll())
        if self.by_workers is not None:
            return bool(self.by_workers.full or self.by_workers.settled)
        left = len(self._present) - self.num_cached
        almost = self._store is not None and left <= max(1, len(self._present) // 100)
        return self.given_up or almost or self._hits_often

    @property
    def by_workers(self) -> Any:
        """Items kept for loaders with worker processes: `hotlap.data.workers.Filled`, or None."""
        return None if self._for_workers is None else self._for_workers.filled

    @property
    def exact_items(self) -> bool:
        """True if items, too, may be handed out from the store; batches always may."""
        return self._store is not None and self._store.exact_items and not self._own_memory

    def locate(self, indices: Sequence[Any]) -> tuple[Store, torch.Tensor] | None:
        """(store, (B,) positions in it) if all these items are kept and not in doubt; otherwise None."""
        self.used = True
        types = set(map(type, indices))
        if self._drop_if_changed() or not types or not self._index_types.issuperset(types):
            return None
        if self._fillers is not None:
            self._absorb(self._fillers.poll())
        store, present = self._store, self._present
        index = positions(indices, types, len(present))
        if index is None or store is None or not (self.full or present[index.numpy()].all()):
            return None
        self._num_batches += 1
        self._count(asked=len(indices), missed=0)
        if self._num_batches % RECHECK_EVERY == 0 and not self._recheck(indices):
            return None
        return store, index

    def ready(self, indices: Sequence[Any]) -> Store | None:
        """The store if it holds all items, of which these (plain numbers) are wanted now, and is not in doubt."""
        self.used = True
        if self._drop_if_changed() or not self.full or int not in self._index_types:
            return None
        self._num_batches += 1
        self._count(asked=len(indices), missed=0)
        if self._num_batches % RECHECK_EVERY == 0 and not self._recheck(indices):
            return None
        return self._store

    def for_workers(self, make: Callable[["Kept"], Any]) -> Any:
        """What serves loaders with worker processes; made once."""
        if self._for_workers is None:
            self._for_workers = make(self)
        return self._for_workers

    def plain(self, indices: Any, *, single: bool = False) -> Any:
        """The items as the data set gives them."""
        return self.dataset[indices[0]] if single else fetch(self.dataset, indices)

    def compute(self, indices: Sequence[Any], *, single: bool = False) -> Any:
        """The items in the order and with the draws that they have without a cache; what may be kept is kept."""
        if get_worker_info() is not None:
            return self.plain(indices, single=single)  # what this process computes is lost with it
        before_first = self._watch is None
        if self._watch is None:
            self._watch = Watch(self.dataset)
            self._streams = Streams(self._watch.streams)
        before = self._streams.states()
        started_s = perf_counter()
        items, rows = self._first(indices, single=single) if before_first else self._more(indices, single=single)
        item_s = (perf_counter() - started_s) / max(1, len(indices))
        # The first item also imports and opens what it needs.
        self._item_s = min(item_s, self._item_s or item_s)
        reason = self._why_not_kept(before)
        if reason is not None:
            self.give_up(reason)
        elif isinstance(items, list) and len(items) == len(indices):
            self._keep(indices, items, rows)
        else:
            self.give_up(f"{self._name} fetches a batch as a {type(items).__name__}, not as a list of its items")
        return items[0] if single else items

    def drop(self, reason: str) -> None:
        """Forget all items because the data set was changed; begin again, unless that happens too often."""
        with self._lock:
            if self._store is None and self._watch is None:
                return
            kept = self.num_cached
            self._forget()
            if kept == 0:
                return
            self._restarts += 1
            if self._restarts > MAX_RESTARTS:
                self.give_up(f"{reason} was changed again and again while items were kept; items are computed")
            else:
                self.say(f"{reason} was changed: {kept} kept items were dropped, and are computed anew")

    def give_up(self, reason: str) -> None:
        """Hand out true items from now on."""
        with self._lock:
            self._forget()
            self._for_workers = None
            self.given_up = True
            self.say(reason)

    def _first(self, indices: Sequence[Any], *, single: bool) -> tuple[Any, list[int]]:
        """(items, rows that may be kept). A file opened with the very first item is no change of the data set."""
        if single or self._whole or not len(indices):
            items = self.plain(indices, single=single)
            self._watch = Watch(self.dataset)
            return ([items] if single else items), []
        items = [self.dataset[indices[0]]]
        self._watch = Watch(self.dataset)
        items += [self.dataset[index] for index in indices[1:]]
        return items, list(range(1, len(indices)))

    def _more(self, indices: Sequence[Any], *, single: bool) -> tuple[Any, list[int]]:
        """(items, rows of them that were computed just now): kept ones from the store, the others in order."""
        if single or self._whole:
            items = self.plain(indices, single=single)
            return ([items] if single else items), list(range(len(indices)))
        kept = [row for row, index in enumerate(indices) if self._has(index)] if self.exact_items else []
        items = [None] * len(indices)
        if kept and self._store is not None:
            positions = [operator.index(indices[row]) for row in kept]
            for row, item in zip(kept, self._store.take(positions), strict=True):
                items[row] = item
        rows = sorted(set(range(len(indices))).difference(kept))
        for row in rows:
            items[row] = self.dataset[indices[row]]
        self._count(asked=len(indices), missed=len(rows))
        return items, rows

    def _why_not_kept(self, before: list[Any]) -> str | None:
        """What was seen around computing items that forbids to keep them."""
        drawn = self._streams.drawn(before)
        if drawn is not None:
            return f"an item of {self._name} draws random numbers (from {drawn}), so items are computed each time"
        changed = self._watch.changed_by_item() if self._watch is not None else None
        if changed is not None:
            return f"computing an item changes {changed} of the data set, so items are computed each time"
        return None

    def _keep(self, indices: Sequence[Any], items: list[Any], rows: list[int]) -> None:
        with self._lock:
            watch = self._watch
            if not rows or watch is None:
                return  # a change of state shows only when a second item is computed
            if len(watch.streams) != len(self._streams.own):
                self._streams = Streams(watch.streams)
            if self._store is None:
                self._begin(indices, items)
            if self._store is not None:
                self._put(indices, items, range(len(items)) if self.num_cached == 0 else rows)

    def _begin(self, indices: Sequence[Any], items: list[Any]) -> None:
        """Compute some items twice; if they come out the same, make the store."""
        length = self._watch.length if self._watch is not None else None
        if length is None:
            self.give_up(f"{self._name} does not say how many items it has, so none is kept")
            return
        rows = [row for row, index in enumerate(indices) if self._position(index) is not None][:NUM_FIRST_CHECKS]
        started_s = perf_counter()
        for row in rows:
            again = self._again(indices[row])
            if again is None:
                return
            if not same(items[row], again[0]):
                self._found_different(items[row])
                return
            self._own_memory |= shares_memory(items[row], again[0]) or entangled(items[row])
        self._checked_s = perf_counter()
        if rows:
            self._check_cost_s = (self._checked_s - started_s) / len(rows)
            self._index_types = {type(indices[rows[0]])}
            self._item_s = min(self._item_s, self._check_cost_s)
            in_parallel = self._item_s * length > FILL_LEAST_S and not self._whole and cannot_fork() is None
            self._open(items, length, shared=in_parallel and usable_cores() > 1)

    def _open(self, items: list[Any], length: int, *, shared: bool) -> None:
        """Choose and make the store, if it fits into memory or on disk."""
        self._limit_bytes = self.limit_bytes()
        wish = Wish(
            limit_bytes=self._limit_bytes,
            shared=shared,
            own_memory=self._own_memory,
            on_disk=self.disk is not False,
            shelf=Shelf(default_folder() if isinstance(self.disk, bool) else Path(self.disk)),
        )
        try:
            opened = open_store(self.dataset, items, length, wish)
        except Unsupported as unsupported:
            self.give_up(f"{self._name} is not kept: {unsupported}")
        except (MemoryError, RuntimeError, OSError) as error:
            self.give_up(f"{self._name} is not kept: its memory could not be had ({error})")
        else:
            self._begin_store(opened, length, shared=shared)

    def _begin_store(self, opened: Opened, length: int, *, shared: bool) -> None:
        self._opened, self._store = opened, opened.store
        if opened.draft is not None:
            weakref.finalize(self, _close_in, os.getpid(), opened)
        self._present = np.full(length, opened.full, dtype=np.bool_)
        self._tell(opened)
        if opened.full:
            self.warm = self.full = True
            self.num_cached = length
            self._check_warm(length)
        elif shared and opened.store.mappable:
            self._fill(length)

    def _check_warm(self, length: int) -> None:
        """Some items of a cache that another run wrote, computed here and compared."""
        for number in range(min(NUM_WARM_CHECKS, length)):
            position = number * length // min(NUM_WARM_CHECKS, length)
            again = self._again(position)
            if again is None:
                return
            if self._store is None or not self._store.holds(position, again[0]):
                self.say(f"the cache of {self._name} on disk holds other items than it has now, so it is not used")
                self._present[:] = False
                self.num_cached = 0
                self.warm = self.full = False
                return

    def _fill(self, length: int) -> None:
        """Have all items computed in other processes; wait for them if that is soon done."""
        cores = usable_cores()
        soon = self._item_s * length / cores < FILL_WAIT_S
        present = self._present
        self._fillers = Fillers(
            self._filler,
            num_processes=cores if soon else cores - 1,
            item_s=self._item_s,
            is_missing=lambda position: not present[position],
        )
        self._fillers.request(range(length))
        self._fillers.close()
        if soon:
            wait_for(self._fillers, self._absorb, lambda: self._fillers is None, 2 * FILL_WAIT_S)

    def _filler(self, number: int) -> Work:
        """IN A FILLER: what computes items into the store."""
        torch.set_num_threads(1)

        def work(wanted: list[int]) -> str | None:
            before = self._streams.states()
            items = [self.dataset[position] for position in wanted]
            reason = self._why_not_kept(before)
            if reason is None and self._store is not None:
                self._store.put(wanted, items)
            return reason

        return work

    def _absorb(self, done: list[int]) -> None:
        """Items that the fillers computed are kept from now on."""
        fillers = self._fillers
        if fillers is None:
            return
        if done:
            self._present[done] = True
            self.num_cached = int(self._present.sum())
            self._now_full()
        if fillers.trouble is not None or fillers.num_outstanding == 0:
            self._fillers = None
            fillers.stop()
            if fillers.refused and fillers.trouble is not None:
                self.give_up(fillers.trouble)

    def _now_full(self) -> None:
        self.full = self.num_cached == len(self._present)
        if self.full and self._opened is not None:
            self._opened.publish()
            self._tell(self._opened)

    def _tell(self, opened: Opened) -> None:
        for note in opened.notes:
            self.say(f"{self._name}: {note}")
        opened.notes.clear()

    def limit_bytes(self) -> int:
        """Bytes that this process may use for items."""
        return int(SHARE_OF_FREE * available_bytes()) if self.memory_bytes is None else self.memory_bytes

    def _put(self, indices: Sequence[Any], items: list[Any], rows: Sequence[int]) -> None:
        new: dict[int, Any] = {}
        for row in rows:
            position = self._position(indices[row])
            if position is None:
                continue
            if type(indices[row]) not in self._index_types:
                self._try_index_type(indices[row], position, items[row])
            elif not self._present[position]:
                new[position] = items[row]
        try:
            if new:
                self._put_new(list(new), list(new.values()))
        except Unsupported as unsupported:
            self.give_up(f"{self._name} is not kept: {unsupported}")
        except (MemoryError, RuntimeError) as error:  # torch has not every operation for every dtype
            self.give_up(f"{self._name} is not kept: {error}")

    def _put_new(self, positions: list[int], items: list[Any]) -> None:
        store = self._store
        if store is None:
            return
        try:
            store.put(positions, items)
        except Varies:
            if self._own_memory:
                raise Unsupported("its items differ in structure, and share memory with the data set") from None
            self._stop()
            store = self._store = ItemStore(len(self._present))
            self._present[:] = False
            store.put(positions, items)
        self._present[positions] = True
        self.num_cached = int(self._present.sum())
        self._now_full()
        if isinstance(store, ItemStore):
            require(store.used_bytes * len(self._present) // self.num_cached, self._limit_bytes)

    def _try_index_type(self, index: Any, position: int, item: Any) -> None:
        """An index of another type (a tensor, a NumPy integer) may mean another item: served once seen not to."""
        if self._store is not None and self._present[position] and self._store.holds(position, item):
            self._index_types.add(type(index))

    def _drop_if_changed(self) -> bool:
        changed = self._watch.changed() if self._watch is not None else None
        if changed is not None:
            self.drop(f"{changed} of the data set")
        return changed is not None

    def _recheck(self, indices: Sequence[Any]) -> bool:
        """Compute one of these kept items again, if it is time to; False if it came out different."""
        started_s = perf_counter()
        if started_s - self._checked_s < RECHECK_SHARE * self._check_cost_s:
            return True
        index = indices[self._num_batches // RECHECK_EVERY % len(indices)]
        again = self._again(index)
        store = self._store
        if again is None or store is None:
            return False
        if not store.holds(operator.index(index), again[0]):
            self._found_different(again[0])
            return False
        self._checked_s = perf_counter()
        self._check_cost_s = self._checked_s - started_s
        return True

    def _again(self, index: Any) -> tuple[Any] | None:
        """(the item computed once more,), leaving no trace in any generator; None if that gave reason to give up."""
        before = self._streams.states()
        try:
            item = self.dataset[index]
        except Exception as error:
            self._streams.restore(before)
            self.give_up(f"an item of {self._name} could not be computed twice ({type(error).__name__}: {error})")
            return None
        reason = self._why_not_kept(before)
        if reason is not None:
            self._streams.restore(before)
            self.give_up(reason)
            return None
        return (item,)

    def _found_different(self, item: Any) -> None:
        if not same(item, item):
            self.give_up(f"{self._name} is not kept: its items hold what cannot be compared")
            return
        kept = f"; {self.num_cached} kept items were dropped" if self.num_cached else ""
        self.give_up(
            f"an item of {self._name} came out different when it was computed again{kept}; items are computed each time"
        )
        warn(str(self.note))

    @property
    def _name(self) -> str:
        return type(self.dataset).__name__

    def _position(self, index: Any) -> int | None:
        """The place of an item, for indices that can only mean that one."""
        if type(index) is not int and not isinstance(index, np.integer) and not is_index_tensor(index):
            return None
        length = self._watch.length if self._watch is not None else None
        position = operator.index(index)
        return position if length is not None and 0 <= position < length else None

    def _has(self, index: Any) -> bool:
        position = self._position(index) if type(index) in self._index_types else None
        return position is not None and bool(self._present[position])

    def _count(self, *, asked: int, missed: int) -> None:
        self._asked += asked
        self._missed += missed
        if self._asked >= SETTLED_WINDOW:
            self._hits_often = self._missed * 100 < self._asked
            self._asked = self._missed = 0

    def _stop(self) -> None:
        """End the fillers, and give the file up."""
        if self._fillers is not None:
            self._fillers.stop()
            self._fillers = None
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _forget(self) -> None:
        self._stop()
        self._store = None
        self._watch = None
        self._present = np.zeros(0, dtype=np.bool_)
        self._index_types = set()
        self.num_cached = 0
        self.full = self.warm = self._hits_often = self._own_memory = False

    def say(self, note: str) -> None:
        """Something that the user should know."""
        self.note = note
        if self.on_note is not None:
            self.on_note(note)


def _close_in(process: int, opened: Opened) -> None:
    """Remove an unfinished file, unless this is a copy of the process that writes it."""
    if os.getpid() == process:
        opened.close()
