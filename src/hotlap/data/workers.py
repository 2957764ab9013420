"""For scripts with worker processes: items are computed in processes like theirs, and kept where this one can gather.

Nothing of the data set is run in this process. What is computed is computed in forked copies of it which are told that
they are the worker of that number, have its seeds, and have called `worker_init_fn`.
"""

import random
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, final

import numpy as np
import torch
from torch.utils.data import default_collate
from torch.utils.data._utils import worker as torch_worker

from hotlap.data.changes import Watch
from hotlap.data.checksums import Unseen
from hotlap.data.contents import Contents
from hotlap.data.copies import NoAnswer, in_a_copy
from hotlap.data.determinism import Streams, fetches_whole_batches
from hotlap.data.fillers import Fillers, Work, cannot_fork
from hotlap.data.items import Unsupported, entangled, same, shares_memory
from hotlap.data.kept import NUM_FIRST_CHECKS, SETTLED_WINDOW, Kept
from hotlap.data.opened_files import OpenedFiles, reads_unnamed_files
from hotlap.data.opening import Opened, close_with, open_store, wish_for

# Items that are computed again at the begin of an epoch, beside the training.
NUM_RECHECKS = 32

# What that may take of the time: one part in so many.
RECHECK_SHARE = 50


@dataclass(frozen=True, slots=True)
class Role:
    """What a worker of the script is told."""

    num_workers: int
    base_seed: int
    init: Callable[[int], object] | None
    collate: Callable[[list[Any]], Any]
    timeout_s: float = 0.0
    """What the script's loader waits for a batch at most; 0: for ever."""

    def play(self, number: int, dataset: Any) -> None:
        """IN A COPY: be that worker, as far as `torch.utils.data._utils.worker._worker_loop` makes one."""
        torch.set_num_threads(1)
        seed = self.base_seed + number
        random.seed(seed)
        torch.manual_seed(seed)
        state: Any = torch_worker._generate_state(self.base_seed, number)  # type: ignore[no-untyped-call]
        np.random.seed(state)
        self.tell(number, dataset)
        if self.init is not None:
            self.init(number)

    def tell(self, number: int, dataset: Any) -> None:
        """IN A COPY: what `get_worker_info` answers from now on."""
        torch_worker._worker_info = torch_worker.WorkerInfo(
            id=number, num_workers=self.num_workers, seed=self.base_seed + number, dataset=dataset
        )


def role_of(loader: Any, base_seed: int = 0) -> Role:
    """What the workers of this loader are told."""
    return Role(loader.num_workers, base_seed, loader.worker_init_fn, loader.collate_fn, loader.timeout)


def why_no_copies(loader: Any) -> str | None:
    """Why a loader's workers do not share this process's memory; None if they are forked copies of it."""
    context = loader.multiprocessing_context
    method = context if context is None or isinstance(context, str) else context.get_start_method()
    method = method or torch.multiprocessing.get_start_method()
    return None if method == "fork" else f"its workers are started by {method}, so they share no memory with this one"


def why_any_order(loader: Any) -> str | None:
    """Why a loader's batches may come in any order; None if they come in the sampler's."""
    in_order = getattr(loader, "in_order", True)  # torch 2.7 and newer
    return None if in_order else "its batches may come in any order (in_order=False)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a copy says of the first items."""

    reason: str | None
    items: list[Any]
    own_memory: bool = False
    item_s: float = 0.0
    reads_files: bool = False
    """An item is read from somewhere, which Python did not open."""


@final
class Filled:
    """Items computed so far, of a data set in one state. An epoch goes on with the one that it began with."""

    def __init__(self, opened: Opened, *, item_s: float, own_memory: bool) -> None:
        self.opened = opened
        self.store = opened.store
        self.item_s = item_s
        self.exact_items = opened.store.exact_items and not own_memory
        self.present = np.full(opened.num_items, opened.full, dtype=np.bool_)
        self.full = opened.full
        self._asked = self._missed = 0
        self._hits_often = False

    def mark(self, positions: list[int]) -> None:
        """These items were computed."""
        if positions:
            self.present[positions] = True
            if not self.full and self.present.all():
                self.full = True
                self.opened.publish()

    @property
    def settled(self) -> bool:
        """True if of the items asked for last fewer than 1 in 100 had to be computed."""
        return self.full or self._hits_often

    def asked(self, num_items: int, num_missed: int) -> None:
        """So many were asked for, and so many of them had to be computed."""
        self._asked += num_items
        self._missed += num_missed
        if self._asked >= SETTLED_WINDOW:
            self._hits_often = self._missed * 100 < self._asked
            self._asked = self._missed = 0

    def missing(self, positions: Sequence[int]) -> list[int]:
        """Those that were not computed yet."""
        return [] if self.full else [position for position in positions if not self.present[position]]


@final
class ForWorkers:
    """The kept items of one data set that the script reads with worker processes."""

    def __init__(self, kept: Kept) -> None:
        self._kept_ref = weakref.ref(kept)  # which holds this
        self._watch: Watch | None = None
        self._contents: Contents | None = None
        self._files = OpenedFiles()
        self._checker: Fillers | None = None
        self._checked: Filled | None = None
        self._checked_s = 0.0
        self._check_cost_s = 0.0
        self._num_checks = 0
        self.filled: Filled | None = None

    @property
    def _kept(self) -> Kept:
        kept = self._kept_ref()
        assert kept is not None  # whoever asks holds it
        return kept

    def begin(self, indices: Any, role: Role) -> Filled | None:
        """Items for workers made now, whose first batch is `indices`; None if the script's own must do it."""
        kept = self._kept
        kept.used = True
        if kept.given_up:
            return None
        changed, reason = self._look()
        if reason is not None:
            kept.give_up(f"{type(kept.dataset).__name__} is read by its own workers: {reason}")
            return None
        if changed is not None:
            self.filled = None
            kept.say(f"{changed} of the data set was changed: its kept items were dropped, and are computed anew")
        if self.filled is None:
            reason = self._open(indices, role)
            if reason is not None:
                kept.give_up(reason)
        return self.filled

    def _look(self) -> tuple[str | None, str | None]:
        """(what has changed, why that cannot be told)."""
        if self._watch is None or self._contents is None:
            return None, None
        num_served = 0 if self.filled is None else int(self.filled.present.sum())
        try:
            return self._watch.changed() or self._contents.changed(num_served), None
        except Unseen as reason:
            return None, str(reason)

    def _open(self, indices: Any, role: Role) -> str | None:
        """Have the first items looked at, and make the store; the reason why there is none."""
        kept, name = self._kept, type(self._kept.dataset).__name__
        self._watch = Watch(kept.dataset)
        length = self._watch.length or 0
        seen = _first_look(kept.dataset, indices, role, length)
        if seen.reason is not None:
            return f"{name} is read by its own workers: {seen.reason}"
        self._files = OpenedFiles(shared=True)
        try:
            self._contents = Contents(
                kept.dataset, beside=self._watch, files=self._files, item_s=seen.item_s, num_items=length
            )
        except Unseen as unseen:
            return f"{name} is read by its own workers: {unseen}"
        if seen.reads_files and not self._contents.has_files:
            return f"{name} is read by its own workers: its items are read from files that cannot be told"
        wish = wish_for(memory_bytes=kept.memory_bytes, disk=kept.disk, shared=True, own_memory=seen.own_memory)
        try:
            opened = open_store(kept.dataset, seen.items, length, wish)
        except (Unsupported, MemoryError, RuntimeError, OSError) as error:
            return f"{name} is not kept: {error}"
        for note in opened.notes:
            kept.say(f"{name}: {note}")
        if not opened.store.mappable:
            opened.close()
            return f"{name} is read by its own workers: its items are no plain numbers that processes can share"
        close_with(self, opened)
        self.filled = Filled(opened, item_s=seen.item_s, own_memory=seen.own_memory)
        kept.warm = opened.full
        return None

    def fillers(self, filled: Filled, role: Role) -> Fillers:
        """As many processes as the script has workers, which compute what they are asked for."""
        return Fillers(
            lambda number: self._fill(filled, role, number),
            num_processes=role.num_workers,
            item_s=filled.item_s,
            is_missing=lambda position: not filled.present[position],
        )

    def check(self, filled: Filled, role: Role) -> None:
        """Start a process that computes some kept items again, unless the last one was not long ago."""
        now_s = perf_counter()
        if self._checker is not None or now_s - self._checked_s < RECHECK_SHARE * self._check_cost_s:
            return
        if self._look() != (None, None):
            return  # persistent workers go on with the data set as it was; a copy made now would not
        self._num_checks += 1
        present = np.flatnonzero(filled.present)
        chosen = random.Random(self._num_checks).sample(range(len(present)), min(NUM_RECHECKS, len(present)))
        self._checked = filled
        self._checker = Fillers(
            lambda number: self._check(filled, role, number),
            num_processes=1,
            item_s=filled.item_s,
            is_missing=lambda _: True,
        )
        self._checker.request([int(present[place]) for place in chosen])
        self._checker.close()
        self._checked_s = perf_counter()
        self._check_cost_s = self._checked_s - now_s + NUM_RECHECKS * filled.item_s

    def doubts(self, filled: Filled) -> str | None:
        """What a check has found wrong with these items."""
        checker = self._checker
        if checker is None:
            return None
        checker.poll()
        refused, trouble = checker.refused, checker.trouble
        if trouble is not None or checker.num_outstanding == 0:
            self.close()
        return trouble if refused and self._checked is filled else None

    def close(self) -> None:
        """End a check that is under way."""
        if self._checker is not None:
            self._checker.stop()
            self._checker = None

    def __del__(self) -> None:
        self.close()

    def _fill(self, filled: Filled, role: Role, number: int) -> Work:
        """IN A FILLER."""
        dataset = self._kept.dataset
        role.play(number, dataset)
        compute = _Compute(dataset)

        def work(wanted: list[int]) -> str | None:
            with self._files.opened_by_items():
                items = compute(wanted)
            if compute.reason is None:
                filled.store.put(wanted, items)
            return compute.reason

        return work

    def _check(self, filled: Filled, role: Role, number: int) -> Work:
        """IN A FILLER."""
        dataset = self._kept.dataset
        role.play(number, dataset)

        def work(wanted: list[int]) -> str | None:
            for position in wanted:
                if not filled.store.holds(position, dataset[position]):
                    return f"an item of {type(dataset).__name__} came out different when it was computed again"
            return None

        return work


def _first_look(dataset: Any, indices: Any, role: Role, length: int) -> Seen:
    """The items of the first batch, if they can be kept at all."""
    reason = cannot_fork(shares_files=True)
    if not length or fetches_whole_batches(dataset):
        reason = "it fetches whole batches, or has no length"
    elif not indices or not all(type(index) is int and 0 <= index < length for index in indices):
        reason = "its items are not looked up by plain numbers"
    return look(dataset, list(indices), role) if reason is None else Seen(reason=reason, items=[])


@final
class _Compute:
    """IN A COPY: items, and what was seen around computing them."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._watch: Watch | None = None
        self.reason: str | None = None

    def __call__(self, wanted: Sequence[int]) -> list[Any]:
        watch = self._watch or Watch(self._dataset)
        streams = Streams(watch.streams)
        before = streams.states()
        items = [self._dataset[wanted[0]]]
        if self._watch is None:
            # A file that is opened with the very first item is no change of the data set.
            self._watch = Watch(self._dataset)
        items += [self._dataset[position] for position in wanted[1:]]
        drawn, changed = streams.drawn(before), self._watch.changed_by_item()
        if drawn is not None:
            self.reason = f"an item draws random numbers (from {drawn})"
        elif changed is not None:
            self.reason = f"computing an item changes {changed} of the data set"
        return items


def look(dataset: Any, indices: list[int], role: Role) -> Seen:
    """Compute the items of the first batch in a copy of this process, some of them twice."""
    try:
        seen = in_a_copy(lambda: _seen(dataset, indices, role), timeout_s=role.timeout_s)
    except NoAnswer as reason:
        return Seen(reason=str(reason), items=[])
    return seen if isinstance(seen, Seen) else Seen(reason="its first items could not be read", items=[])


def _seen(dataset: Any, indices: list[int], role: Role) -> Seen:
    watch = Watch(dataset)
    role.play(0, dataset)
    changed = watch.changed()
    if changed is not None:
        return Seen(reason=f"worker_init_fn changes {changed} of the data set", items=[])
    compute = _Compute(dataset)
    files = OpenedFiles()
    with files.opened_by_items():
        compute(indices[:1])
    started_s = perf_counter()
    items = compute(indices)
    item_s = (perf_counter() - started_s) / len(indices)
    checked = indices[:NUM_FIRST_CHECKS]
    role.tell(1, dataset)  # another worker must get the same items
    with files.opened_by_items():
        again = compute(checked)
        reads = reads_unnamed_files(lambda: compute(indices[:1])) and not files
    seen = Seen(
        reason=compute.reason
        or (None if all(map(same, items, again)) else "an item came out different the second time"),
        items=[],
        reads_files=reads,
    )
    if seen.reason is not None:
        return seen
    own = any(map(shares_memory, items, again)) or any(map(entangled, items))
    reason = _collate_reason(role.collate, again, own_memory=own)
    return replace(seen, reason=reason, items=items[:NUM_FIRST_CHECKS], own_memory=own, item_s=item_s)


def _collate_reason(collate: Callable[[list[Any]], Any], items: list[Any], *, own_memory: bool) -> str | None:
    """Why a collate function of the script's must run in the script's workers."""
    if collate is default_collate:
        return None
    if own_memory:
        return "its items share memory, and its collate function might write to it"
    watch = Watch(collate)
    streams = Streams(watch.streams)
    before = streams.states()
    collate(items)
    drawn, changed = streams.drawn(before), watch.changed()
    if drawn is not None:
        return f"its collate function draws random numbers (from {drawn})"
    return None if changed is None else f"its collate function changes {changed}"
