"""The kept items of one data set, and the doubts about them: when they are filled, checked again, and dropped.

It is one for the training process and for forked workers: the store, and what is noted about it (`Progress`), lie in
memory that they share. All else each of them has for itself, as it was when it was forked.
"""

import operator
import os
import random
import reprlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, final

import numpy as np
import torch
from torch.utils.data import get_worker_info

from hotlap.data.checks.checksums import Unseen
from hotlap.data.checks.contents import Contents
from hotlap.data.checks.first_look import NUM_FIRST_CHECKS, first_look
from hotlap.data.checks.forked import NoAnswer, in_a_copy
from hotlap.data.checks.inputs import Inputs
from hotlap.data.checks.key import Key
from hotlap.data.checks.opened_files import reads_unnamed_files
from hotlap.data.checks.random_state import States
from hotlap.data.checks.watch import Watch
from hotlap.data.item.compare import Unsupported, entangled, same, shares_memory
from hotlap.data.item_cache.columns import NotBytes
from hotlap.data.item_cache.fill import CacheFill
from hotlap.data.item_cache.placement import open_records, take
from hotlap.data.item_cache.progress import Progress
from hotlap.data.item_cache.store import RecordStore, Store, Varies
from hotlap.data.loader.fetch import fetch, fetches_whole_batches, is_index_tensor, positions
from hotlap.data.loader.workers import Role
from hotlap.data.notes import warn

# A kept item is computed again once in so many batches, but never for more than one part in RECHECK_SHARE of the time.
RECHECK_EVERY = 16
RECHECK_SHARE = 50

# So many kept items are computed again in a copy of this process where the script has workers.
NUM_COPY_CHECKS = 8

# What it takes to make such a copy, about: 10 to 30 ms with torch, more on a busy machine.
COPY_S = 0.05

# Items of a cache found on disk that are computed and compared before the first is handed out.
NUM_WARM_CHECKS = 8

# A data set that is changed from outside more often than this (each epoch, say) is not worth filling again.
MAX_RESTARTS = 2

_DIFFERENT = "came out different when it was computed again"

# A script may look at `dataset[-1]` before it trains. One that was given so many items by other keys than their places,
# while fewer are kept, goes on so.
MOST_OTHERS = 64

# `settled` when of this many items asked for last, fewer than 1 in 100 had to be computed. An epoch need not touch
# every item: a sampler with replacement, or `drop_last`, leaves some for later.
SETTLED_WINDOW = 1024


@final
class ItemCache(CacheFill):
    """The kept items of one data set, and the doubts about them."""

    def __init__(self, dataset: Any, *, memory_bytes: int | None = None, disk: bool | str | Path = False) -> None:
        super().__init__(dataset, memory_bytes=memory_bytes, disk=disk)
        self.given_up = False
        self.used = False
        """True once an item was asked for."""
        self._lock = threading.RLock()
        self._whole = fetches_whole_batches(dataset)
        self._inputs: Inputs | None = None
        self._before_first = True
        """No item was computed here since the data set was looked at."""
        self._arrived = os.getpid()
        self._ahead = False
        """This process is one that fills the cache."""
        self._num_asked = 0
        """Items since the epoch began."""
        self._num_before = 0
        """Items that were kept when workers began last."""
        self._index_types: set[type] = set()
        self._num_others = 0
        """Items that were not asked for by their places."""
        self._restarts = 0
        self._num_batches = 0
        self._asked = self._missed = 0
        self._hits_often = False
        self._checked_s = 0.0
        self._check_cost_s = 0.0
        self._num_copy_checks = 0

    @property
    def settled(self) -> bool:
        """True if it is full but for 1 item in 100, has given up, or hardly computes anything any more."""
        left = len(self._present) - self.num_cached
        almost = self._store is not None and left <= max(1, len(self._present) // 100)
        return self.given_up or almost or self._hits_often

    @property
    def exact_items(self) -> bool:
        """True if items, too, may be handed out from the store; batches always may."""
        return self._store is not None and self._store.exact_items and not self._own_memory

    @property
    def _watch(self) -> Watch | None:
        return None if self._inputs is None else self._inputs.watch

    @property
    def _contents(self) -> Contents | None:
        return None if self._inputs is None else self._inputs.contents

    def locate(self, indices: Sequence[Any]) -> tuple[Store, torch.Tensor] | None:
        """(store, (B,) positions in it) if all these items are kept and not in doubt; otherwise None."""
        self.used = True
        if self._num_asked >= len(self._present) > 0:
            self.begin_epoch()  # a script that goes through the items without a loader
        types = set(map(type, indices))
        if self._in_doubt() or not types or not self._index_types.issuperset(types):
            return None
        if self._pool is not None and not self._pool.alive:
            self._end_pool()
        store, present = self._store, self._present
        index = positions(indices, types, len(present))
        if index is None or store is None or not (self.full or present[index.numpy()].all()):
            return None
        self._num_batches += 1
        self._num_asked += len(indices)
        self._count(asked=len(indices), missed=0)
        if self._num_batches % RECHECK_EVERY == 0 and not self._recheck(indices):
            return None
        return store, index

    def ready(self, indices: Sequence[Any]) -> Store | None:
        """The store if it holds all items, of which these (plain numbers) are wanted now, and is not in doubt."""
        self.used = True
        if self._in_doubt() or not self.full or int not in self._index_types:
            return None
        self._num_batches += 1
        self._num_asked += len(indices)
        self._count(asked=len(indices), missed=0)
        if self._num_batches % RECHECK_EVERY == 0 and not self._recheck(indices):
            return None
        return self._store

    def begin_epoch(self) -> None:
        """Before the first batch of an epoch: look at all that items are made from."""
        contents, num_asked = self._contents, self._num_asked
        if contents is None or self._in_copy or self.refused():
            return
        self._num_asked = 0
        try:
            changed = contents.changed(num_asked)
        except Unseen as reason:
            self.give_up(f"{self._name} is not kept: {reason}")
            return
        if changed is not None:
            if contents.changed_file() is not None:
                self.progress.refuse(f"{changed} was changed")  # persistent workers read it anew
            self.drop(f"{changed} of the data set")

    def before_workers(self, role: Role) -> None:
        """Worker processes are about to be forked: make the store that they share, or look whether it still holds."""
        self.used = True
        if self._in_doubt() and self.given_up:
            return
        if self._store is None:
            reason = self._open_for(role)
            if reason is not None:
                self.give_up(f"{self._name} is read by its own workers: {reason}")
        elif not self._check_in_copy(role):
            return
        found = self.num_cached
        self._num_asked += found
        self._hits_often = 0 < self._num_before <= found <= self._num_before + len(self._present) // 100
        self._num_before = found

    def goes_on(self, progress: Progress) -> bool:
        """True if persistent workers that were forked with this fill what is kept now, and all files are as they were.

        Of the data set they have a copy of their own, which changes do not reach; but they read files anew.
        """
        file = None if self._contents is None else self._contents.changed_file()
        if file is not None:
            progress.refuse(f"{self._name} is read by its own workers: the file {file} was changed while they lived")
        return progress is self.progress and not self.refused()

    def still_holds(self, progress: Progress, role: Role) -> bool:
        """False if no more batches may be gathered in the place of persistent workers."""
        if not self.goes_on(progress):
            return progress.refusal is None
        assert self._watch is not None and self._contents is not None  # there is a store
        try:
            changed = self._watch.changed() or self._contents.changed(self.num_cached)
        except Unseen as reason:
            changed = str(reason)
        return changed is not None or self._check_in_copy(role)

    def shared_store(self) -> Store | None:
        """The store, full and not in doubt, to be read in place of workers: as they would, it outlives a change."""
        return self._store if self.full and not self.given_up and int in self._index_types else None

    def plain(self, indices: Any, *, single: bool = False) -> Any:
        """The items as the data set gives them."""
        return self.dataset[indices[0]] if single else fetch(self.dataset, indices)

    def compute(self, indices: Sequence[Any], *, single: bool = False) -> Any:
        """The items in the order and with the draws that they have without a cache; what may be kept is kept."""
        lost = self._in_copy or get_worker_info() is not None  # with this process, but for what is shared
        if lost and self._store is None:
            return self.plain(indices, single=single)
        before_first, self._before_first = self._before_first, False
        inputs = self._inputs = self._inputs or Inputs(self.dataset)
        before = inputs.streams.states()
        started_s = perf_counter()
        with inputs.files.opened_by_items():
            items, rows = self._first(indices, single=single) if before_first else self._more(indices, single=single)
        item_s = (perf_counter() - started_s) / max(1, len(indices))
        self._num_asked += len(indices)
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

    def _compute_ahead(self, positions: range) -> bool:
        if self._in_doubt():
            return False
        self._ahead, self._index_types = True, {int}
        wanted = [position for position in positions if not self._present[position]]
        if wanted:
            self.compute(wanted)
        return not self.given_up

    def _differ(self) -> str | None:
        return None if self._inputs is None else self._inputs.differ()

    def drop(self, reason: str) -> None:
        """Forget all items because the data set was changed; begin again, unless that happens too often."""
        with self._lock:
            if self._store is None and self._inputs is None:
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
            if self._store is not None:
                self.progress.refuse(reason)
            self._forget()
            self.given_up = True
            self.say(reason)

    def _first(self, indices: Sequence[Any], *, single: bool) -> tuple[Any, list[int]]:
        """(items, rows that may be kept). A file opened with the very first item is no change of the data set."""
        if single or self._whole or not len(indices):
            items = self.plain(indices, single=single)
            self._note()
            return ([items] if single else items), []
        items = [self.dataset[indices[0]]]
        # In a copy more is known: items were tried before it was made.
        changes_nothing = self._in_copy and self._watch is not None and self._watch.opened() is None
        self._note()
        items += [self.dataset[index] for index in indices[1:]]
        return items, list(range(0 if changes_nothing else 1, len(indices)))

    def _more(self, indices: Sequence[Any], *, single: bool) -> tuple[Any, list[int]]:
        """(items, rows of them that were computed just now): kept ones from the store, the others in order."""
        if single or self._whole:
            items = self.plain(indices, single=single)
            return ([items] if single else items), list(range(len(indices)))
        kept = [row for row, index in enumerate(indices) if self.exact_items and not self._ahead and self._has(index)]
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

    def _note(self) -> None:
        """Take what items are made from as it is now."""
        if self._inputs is None:  # it was dropped while an item was computed
            self._inputs = Inputs(self.dataset)
        else:
            self._inputs.note()

    def _why_not_kept(self, before: States) -> str | None:
        """What was seen around computing items that forbids to keep them."""
        reason = None if self._inputs is None else self._inputs.why_not_kept(before)
        return None if reason is None else f"{reason}, so items are computed each time"

    def _keep(self, indices: Sequence[Any], items: list[Any], rows: list[int]) -> None:
        with self._lock:
            if not rows or self._inputs is None:
                return  # a change of state shows only when a second item is computed
            length = self._inputs.watch.length
            if length is not None and all(self._position(index) is None for index in indices):
                self._count_others(indices, length)
                return
            if self._store is None:
                self._begin(indices, items)
            if self._store is not None:
                self._put(indices, items, range(len(items)) if self.num_cached == 0 else rows)

    def _count_others(self, indices: Sequence[Any], length: int) -> None:
        self._num_others += len(indices)
        if self._num_others > MOST_OTHERS > self.num_cached and not self.full:
            keys = f"keys such as {reprlib.repr(indices[0])}, not by numbers from 0 to {length - 1}"
            self.give_up(f"{self._name} is asked for items by {keys}, so none is kept")

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
        self._check_cost_s = (self._checked_s - started_s) / len(rows)
        self._index_types = {type(indices[rows[0]])}
        self._item_s = min(self._item_s, self._check_cost_s)
        if self._look_inside(length, lambda: reads_unnamed_files(lambda: self._again(indices[rows[0]]))):
            self._open(items, length)
            self._begin_filling(items, length)

    def _begin_filling(self, items: list[Any], length: int) -> None:
        if self.warm:
            for place in _spread(length, NUM_WARM_CHECKS):
                again = self._again(place)
                if again is not None and self._store is not None and not self._store.holds(place, again[0]):
                    self._leave_disk(items, length)
                    return
        elif self._store is not None and not self._whole and self._pays_to_share(length):
            self._fill(length)

    def _open_for(self, role: Role) -> str | None:
        """As `_begin`, with items that a copy of this process computes; the reason why there is no store."""
        inputs = Inputs(self.dataset)
        length = inputs.watch.length
        if not length or self._whole:
            return "it fetches whole batches, or has no length"
        seen = first_look(self.dataset, _spread(length, NUM_FIRST_CHECKS), role)
        if seen.reason is not None:
            return seen.reason
        self._inputs = inputs
        self._index_types, self._item_s, self._own_memory = {int}, seen.item_s, seen.own_memory
        self._checked_s, self._check_cost_s = perf_counter(), COPY_S + NUM_COPY_CHECKS * seen.item_s
        if self._look_inside(length, lambda: seen.reads_files):
            self._open(seen.items, length, shared=True)
            if self.warm and not self._holds_in_copy(role, _spread(length, NUM_WARM_CHECKS)):
                self._leave_disk(seen.items, length, shared=True)
        return None

    def _look_inside(self, length: int, reads_unnamed: Callable[[], bool]) -> bool:
        """Note all that items are made from, to be compared when an epoch begins; False if that cannot be done."""
        assert self._inputs is not None  # they were noted before the first item
        self._key = Key() if self.disk is not False else None
        try:
            self._inputs.look_inside(item_s=self._item_s, num_items=length, reads_unnamed=reads_unnamed, key=self._key)
        except Unseen as reason:
            self.give_up(f"{self._name} is not kept: {reason}")
        return not self.given_up

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
        except (NotBytes, Varies) as other:
            if self._ahead:
                raise  # the training process meets it, and knows what to do
            self._stop()
            if isinstance(other, NotBytes):
                self._keep_numbers(items)
                return
            store = self._keep_one_by_one(items)
            store.put(positions, items)
        self._present[positions] = True
        self.look_if_full()
        if isinstance(store, RecordStore) and store.records.in_memory:
            take(store, store.used_bytes * len(self._present) // self.num_cached, self._limit_bytes)

    def _keep_numbers(self, items: list[Any]) -> None:
        """Begin anew, now that a picture is not made of bytes as those before it."""
        if self._in_copy:
            raise Unsupported("its pictures are not all made of bytes")
        self.as_bytes = False
        self._open(items, len(self._present))
        if not self.given_up:
            self._begin_filling(items, len(self._present))

    def _keep_one_by_one(self, items: list[Any]) -> Store:
        """Begin anew, now that an item is built otherwise than those before it."""
        if self._own_memory:
            raise Unsupported("its items differ in structure, and share memory with the data set")
        if self._in_copy:
            raise Unsupported("its items differ in structure")
        self._store, note = open_records(items, len(self._present), self._limit_bytes)
        if note is not None:
            self.say(f"{self._name}: {note}")
        self.progress = Progress(len(self._present))
        return self._store

    def _try_index_type(self, index: Any, position: int, item: Any) -> None:
        """An index of another type (a tensor, a NumPy integer) may mean another item: served once seen not to."""
        if self._store is not None and self._present[position] and self._store.holds(position, item):
            self._index_types.add(type(index))

    def _in_doubt(self) -> bool:
        """True if kept items must not be handed out now: a process refused them, or the data set was changed."""
        if self._arrived != os.getpid():
            self._arrive()
        if self.refused():
            return True
        changed = self._watch.changed() if self._watch is not None else None
        if changed is not None:
            self.drop(f"{changed} of the data set")
        return changed is not None

    def _arrive(self) -> None:
        """IN A COPY: `worker_init_fn` may have opened files, and so may the first item; else nothing has changed."""
        self._arrived = os.getpid()
        self._pool, self._num_asked, inputs = None, 0, self._inputs
        if inputs is None or inputs.watch.opened() is None:
            self._before_first = True
            if inputs is not None:
                inputs.contents = None
                inputs.note()
        else:  # the items of this worker are its own
            self._forget()

    def refused(self) -> bool:
        """True if nothing is kept any more, be it another process that found why."""
        refusal = self.progress.refusal
        if refusal is not None and not self.given_up:
            self.give_up(refusal)
            if _DIFFERENT in refusal:
                warn(refusal)
        return self.given_up

    def _check_in_copy(self, role: Role) -> bool:
        """Have some kept items computed again, if it is time to, where the script computes them; as `_recheck`."""
        started_s = perf_counter()
        kept = np.flatnonzero(self._present)
        if not len(kept) or started_s - self._checked_s < RECHECK_SHARE * self._check_cost_s:
            return True
        self._num_copy_checks += 1
        chosen = random.Random(self._num_copy_checks).sample(kept.tolist(), min(NUM_COPY_CHECKS, len(kept)))
        same_again = self._holds_in_copy(role, chosen)
        self._checked_s = perf_counter()
        self._check_cost_s = self._checked_s - started_s
        if not same_again:
            self.give_up(self._different())
            warn(str(self.note))
        return same_again

    def _holds_in_copy(self, role: Role, positions: Sequence[int]) -> bool:
        """True if these items come out as they are kept, or do not come out: a worker will tell."""
        store, dataset = self._store, self.dataset

        def hold() -> bool:
            role.play(0, dataset)
            return store is not None and all(store.holds(position, dataset[position]) for position in positions)

        try:
            return bool(in_a_copy(hold, timeout_s=role.timeout_s))
        except NoAnswer:
            return True

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
        assert self._inputs is not None  # something was computed before
        streams, files = self._inputs.streams, self._inputs.files
        before = streams.states()
        try:
            with files.opened_by_items():
                item = self.dataset[index]
        except Exception as error:
            streams.restore(before)
            self.give_up(f"an item of {self._name} could not be computed twice ({type(error).__name__}: {error})")
            return None
        reason = self._why_not_kept(before)
        if reason is not None:
            streams.restore(before)
            self.give_up(reason)
            return None
        return (item,)

    def _found_different(self, item: Any) -> None:
        if not same(item, item):
            self.give_up(f"{self._name} is not kept: its items hold what cannot be compared")
            return
        self.give_up(self._different())
        warn(str(self.note))

    def _different(self) -> str:
        kept = f"; {self.num_cached} kept items were dropped" if self.num_cached else ""
        return f"an item of {self._name} {_DIFFERENT}{kept}; items are computed each time"

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

    def _forget(self) -> None:
        self._stop()
        self._store = None
        self._inputs = None
        self._before_first = True
        self.progress = Progress(0)
        self._index_types = set()
        self._num_before = 0
        self._full = self.warm = self._hits_often = self._own_memory = False


def _spread(length: int, number: int) -> list[int]:
    """So many positions, or as many as there are."""
    return sorted({place * length // number for place in range(number)})
