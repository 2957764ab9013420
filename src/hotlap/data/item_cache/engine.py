"""The kept items of one data set, and the doubts about them: when they are filled, checked again, and dropped.

It is one for the training process and for forked workers: the store, and what is noted about it (`Progress`), lie in
memory that they share. All else each of them has for itself, as it was when it was forked.
"""

import os
import reprlib
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import torch
from torch.utils.data import get_worker_info

from hotlap.data.checks.forked import cannot_fork, fill_in_copies, in_a_copy
from hotlap.data.checks.inputs import Contents, Inputs
from hotlap.data.checks.random_state import States
from hotlap.data.item.codec import CannotKeep
from hotlap.data.item_cache.again import DIFFERENT, Compared, ComputedAgain, Rechecks
from hotlap.data.item_cache.fill import spread
from hotlap.data.item_cache.memory import limit_bytes, usable_cores
from hotlap.data.item_cache.store import Store
from hotlap.data.loader.fetch import fetch, positions
from hotlap.data.prefix_cache.pipelines import look_up_last_steps
from hotlap.data.wrapper import warn

# So many items are computed twice before anything is kept.
NUM_FIRST_CHECKS = 2

# Items of a cache found on disk that are computed and compared before the first is handed out.
NUM_WARM_CHECKS = 8

# A script may look at `dataset[-1]` before it trains. One that was given so many items by other keys than their places,
# while fewer are kept, goes on so.
MOST_OTHERS = 64

# `settled` when so many times as many items were asked for as there are. An epoch need not touch every item: a sampler
# with replacement, or `drop_last`, leaves some for later.
SETTLED_EPOCHS = 2

# Below this time it would take to compute all items here, starting processes for them brings nothing: a fork of a
# process with torch takes 10 to 30 ms.
FILL_LEAST_S = 0.5

# What all cores fill in less is waited for: beside a training whose threads want the cores as well each slows the other
# down (a small step took 3 ms in place of 0.4 ms). Of more than that a script may never ask for all.
FILL_MOST_S = 30.0

# What a copy of this process that computes items takes for itself: 3.7 MiB with small ones (torch 2.13, Linux).
FILLER_BYTES = 4 << 20


class ItemCache(ComputedAgain):
    """The kept items of one data set, and the doubts about them."""

    may_draw: ClassVar[bool] = False
    """An item that draws random numbers is not kept, but others are; False: then none is."""

    def __init__(self, dataset: Any, *, memory_bytes: int | None = None, disk: bool | str | Path = False) -> None:
        super().__init__(dataset, memory_bytes=memory_bytes, disk=disk)
        self.used = False
        """True once an item was asked for."""
        self.rechecks = Rechecks()
        self._arrived = os.getpid()
        self.num_asked = 0
        """Items since the epoch began."""
        self._num_others = 0
        """Items that were not asked for by their places."""
        self.before: States = []  # of the generators, where they were before `compute` began

    @property
    def settled(self) -> bool:
        """True if it is full but for 1 item in 100, has given up, or what it lacks is hardly asked for."""
        length = len(self.present)
        almost = length - self.num_cached <= max(1, length // 100) or self._asked >= SETTLED_EPOCHS * length
        return self.given_up or (self.store is not None and almost)

    @property
    def exact_items(self) -> bool:
        """True if items, too, may be handed out from the store; batches always may."""
        return self.store is not None and not self.own_memory

    def locate(self, indices: Sequence[Any]) -> tuple[Store, torch.Tensor] | None:
        """(store, (B,) positions in it) if all these items are kept and not in doubt; otherwise None."""
        self.used = True
        if self.num_asked >= len(self.present) > 0:
            self.begin_epoch()  # a script that goes through the items without a loader
        types = set(map(type, indices))
        plain = bool(types) and self.index_types.issuperset(types)
        index = positions(indices, types, len(self.present)) if plain else None
        if self.in_doubt(() if index is None else index.tolist()) or index is None:
            return None
        store, present = self.store, self.present
        if store is None or not (self.full or present[index.numpy()].all()):
            return None
        return (store, index) if self._may_be_served(indices) else None

    def ready(self, indices: Sequence[int]) -> Store | None:
        """The store if it holds all items, of which these are wanted now, and is not in doubt."""
        self.used = True
        served = not self.in_doubt(indices) and self.full and int in self.index_types and self._may_be_served(indices)
        return self.store if served else None

    def _may_be_served(self, indices: Sequence[Any]) -> bool:
        """Count these kept items as asked for; False if one was computed again now, and came out different."""
        self._num_batches += 1
        self.count(len(indices))
        return self._recheck(indices)

    def begin_epoch(self) -> None:
        """Before the first batch of an epoch: look at all that items are made from."""
        contents, num_asked = self.contents, self.num_asked
        if contents is None or self.in_copy or self.refused():
            return
        self.num_asked = 0
        try:
            changed = contents.changed(num_asked)
        except CannotKeep as reason:
            self.give_up(f"{self.name} is not kept: {reason}")
            return
        if changed is not None:
            self._drop_as_changed(contents, changed)

    def shared_store(self) -> Store | None:
        """The store, full and not in doubt, to be read in place of workers: as they would, it outlives a change."""
        return self.store if self.full and not self.given_up and int in self.index_types else None

    def plain(self, indices: Any, *, single: bool = False) -> Any:
        """The items as the data set gives them."""
        return self.item(indices[0]) if single else fetch(self.dataset, indices)

    def compute(self, indices: Sequence[Any], *, single: bool = False) -> Any:
        """The items in the order and with the draws that they have without a cache; what may be kept is kept."""
        # What a copy of this process keeps is lost with it, but for what is shared.
        if self.given_up or (self.store is None and (self.in_copy or get_worker_info() is not None)):
            return self.plain(indices, single=single)
        inputs = self.inputs = self.inputs or Inputs(self.dataset)
        before = self.before = inputs.streams.states()
        started_s = perf_counter()
        with inputs.files.opened_by_items():
            items, rows = self._items(indices, single=single)
        item_s = (perf_counter() - started_s) / max(1, len(indices))
        self.count(len(indices))
        # The first item also imports and opens what it needs.
        self.item_s = min(item_s, self.item_s or item_s)
        reason = self._why_not_kept(before)
        if reason is not None:
            if not self.may_draw or inputs.streams.drawn(before) is None:
                self.give_up(reason)
        elif isinstance(items, list) and len(items) == len(indices):
            self._keep(indices, items, rows)
        else:
            self.give_up(f"{self.name} fetches a batch as a {type(items).__name__}, not as a list of its items")
        return items[0] if single else items

    def _fill(self, length: int) -> None:
        """Have all items computed by all cores, and wait for that, if it pays and is soon done."""
        cores = min(usable_cores(), limit_bytes() // FILLER_BYTES)
        pays = cores > 1 and FILL_LEAST_S < self.item_s * length < FILL_MOST_S * cores
        if pays and not self.whole and cannot_fork() is None:
            fill_in_copies(
                self._compute_ahead,
                num_items=length,
                num_processes=cores,
                item_s=self.item_s,
                limit_s=2 * FILL_MOST_S,
            )

    def _compute_ahead(self, positions: range) -> bool:
        """IN A PROCESS OF THE POOL: keep the items that are not there yet; False if no more are to be computed."""
        if self.in_doubt() or self.inputs is None:
            return False
        if not self._ahead:
            self._ahead, self.index_types = True, {int}
            look_up_last_steps(self.dataset)
            self.inputs.note()
        absent = np.flatnonzero(~self.present[positions.start : positions.stop])
        if len(absent):
            self.compute((absent + positions.start).tolist())
        return not self.given_up

    def _items(self, indices: Sequence[Any], *, single: bool) -> tuple[Any, list[int]]:
        """(items, rows of them that were computed just now, and may be kept): kept ones from the store, in order."""
        if single or self.whole or not len(indices):
            made = self.plain(indices, single=single)
            rows = [] if self._before_first and self._note_first() else list(range(len(indices)))
            return ([made] if single else made), rows
        items: list[Any] = [None] * len(indices)
        kept = dict[int, int]()
        if self.store is not None and self.exact_items and not self._ahead:
            places = (self.position(index) if type(index) in self.index_types else None for index in indices)
            kept = {row: place for row, place in enumerate(places) if place is not None and self.present[place]}
            for row, item in zip(kept, self.store.take([*kept.values()]), strict=True):
                items[row] = item
        rows = [row for row in range(len(indices)) if row not in kept]
        for row in tuple(rows):
            items[row] = self.item(indices[row])
            if self._before_first and self._note_first():
                rows.remove(row)
        return items, rows

    def _note_first(self) -> bool:
        """Behind the very first item: True unless it changed nothing. A file that is opened with it is no change."""
        # In a copy more is known: items were tried before it was made.
        changes_nothing = self.in_copy and self.inputs is not None and self.inputs.watch.opened() is None
        self._before_first = False
        self._note()
        return not changes_nothing

    def _keep(self, indices: Sequence[Any], items: list[Any], rows: list[int]) -> None:
        with self._lock:
            if not rows or self.inputs is None:
                return  # a change of state shows only when a second item is computed
            length = self.inputs.watch.length
            if length is not None and all(self.position(index) is None for index in indices):
                self._num_others += len(indices)
                if self._num_others > MOST_OTHERS > self.num_cached and not self.full:
                    keys = f"keys such as {reprlib.repr(indices[0])}, not by numbers from 0 to {length - 1}"
                    self.give_up(f"{self.name} is asked for items by {keys}, so none is kept")
                return
            if self.store is None:
                self._begin(indices, items)
            if self.store is not None:
                self._put(indices, items, range(len(items)) if self.num_cached == 0 else rows)

    def _begin(self, indices: Sequence[Any], items: list[Any]) -> None:
        """Compute some items twice; if they come out the same, make the store."""
        length = self.inputs.watch.length if self.inputs is not None else None
        if length is None:
            self.give_up(f"{self.name} does not say how many items it has, so none is kept")
            return
        rows = [row for row, index in enumerate(indices) if self.position(index) is not None][:NUM_FIRST_CHECKS]
        computed = [(indices[row], items[row]) for row in rows]
        try:
            in_process = cannot_fork(waits=True) is not None
            compared = self.compared(computed) if in_process else in_a_copy(lambda: self.compared(computed))
        except CannotKeep as reason:
            compared = f"{self.name} is not kept: {reason}"
        if isinstance(compared, str):
            self._refuse(compared)
            return
        self.index_types = {type(indices[rows[0]])}
        self.rechecks = Rechecks(compared.item_s)
        if not self.keep_as(compared._replace(item_s=min(self.item_s, compared.item_s)), items, length):
            return
        if not self.warm:
            self._fill(length)
        for place in spread(length, NUM_WARM_CHECKS) if self.warm else ():
            again = self.again(place)
            if again is not None and self.store is not None and not self.store.holds(place, again[0]):
                self.leave_disk(items, length)
                return

    def keep_as(self, compared: Compared, items: list[Any], length: int, *, shared: bool = False) -> bool:
        """Note all that items are made from, to be compared when an epoch begins, and make the store for items like
        these; False, and given up, if that cannot be done."""
        inputs = self.inputs
        assert inputs is not None  # they were noted before the first item
        self.own_memory, self.item_s = compared.own_memory, compared.item_s
        try:
            contents = Contents(self.dataset, inputs.watch, inputs.files, item_s=self.item_s, num_items=length)
            if compared.reads_unnamed and not inputs.files and not contents.named:
                raise CannotKeep("its items are read from files that cannot be told")
        except CannotKeep as reason:
            self.give_up(f"{self.name} is not kept: {reason}")
            return False
        inputs.contents = contents
        self._key = contents.key if self.disk is not False else None
        self.open(items, length, shared=shared)
        return not self.given_up

    def in_doubt(self, numbers: Sequence[int] = ()) -> bool:
        """True if kept items must not be handed out now: a process refused them, or the data set was changed (of what
        has an entry for each item, those of these numbers)."""
        if self._arrived != os.getpid():
            self._arrive()
        if self.refused():
            return True
        watch = None if self.inputs is None else self.inputs.watch
        changed = None if watch is None else watch.changed() or watch.entry_changed(numbers)
        if changed is not None:
            self.drop(f"{changed} of the data set")
        return changed is not None

    def _arrive(self) -> None:
        """IN A COPY: `worker_init_fn` may have opened files, and so may the first item; else nothing has changed."""
        self._arrived = os.getpid()
        self.num_asked, inputs = 0, self.inputs
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
            self._refuse(refusal)
        return self.given_up

    def _refuse(self, reason: str) -> None:
        """Give up, as another process found out."""
        self.give_up(reason)
        if DIFFERENT in reason:
            warn(reason)

    def count(self, num_asked: int) -> None:
        """So many items were asked for."""
        self.num_asked += num_asked
        self._asked += num_asked
