"""What `iter(loader)` gives for a loader over a cached data set: torch's own bookkeeping, without the work.

A loader without workers: torch's own samplers are asked for some batches at a time, where that draws nothing, and a
batch is a gather by a slice of these indices. A loader with workers: batches are gathered in this process, while base
seed, samplers and the batches that workers are ahead go on exactly as if the workers were there; on the first doubt
they are started after all, at that batch, with the seed that they would have had.
"""

import copy
import itertools
from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Any, final

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    default_collate,
)
from torch.utils.data._utils.pin_memory import pin_memory as torch_pins
from torch.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

from hotlap.data.cache import CachedDataset
from hotlap.data.collation import torch_collates
from hotlap.data.determinism import Streams
from hotlap.data.fillers import Fillers
from hotlap.data.gathering import BatchedDataset
from hotlap.data.indices import positions
from hotlap.data.lateness import LateDataset, late_iterator
from hotlap.data.prefix import PrefixDataset
from hotlap.data.stand_in import StandIn
from hotlap.data.warning import warn
from hotlap.data.workers import Filled, ForWorkers, role_of, why_any_order, why_no_copies

_TORCH = _BaseDataLoaderIter.__module__

# Batches whose indices become one tensor: 8 us a batch of 32 with its share of the sampler, one by one 16 us.
_BATCHES_AT_ONCE = 64

# How long a batch that waits for its items sleeps before it looks again.
_WAIT_S = 1.0


def taught(get_iterator: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`DataLoader._get_iterator`, with a shorter way for cached data sets."""

    @wraps(get_iterator)
    def _get_iterator(loader: Any) -> Any:
        if isinstance(loader.dataset, StandIn):
            loader.dataset._hotlap_begin_epoch()
        short = _shorter(loader)
        return get_iterator(loader) if short is None else short(loader)

    _get_iterator._hotlap_taught = True  # type: ignore[attr-defined]
    return _get_iterator


def teach() -> None:
    """For use by hand: from now on, loaders over cached data sets take the shorter way."""
    if not getattr(DataLoader._get_iterator, "_hotlap_taught", False):
        loader: Any = DataLoader
        loader._get_iterator = taught(loader._get_iterator)


def _shorter(loader: Any) -> Callable[[Any], Any] | None:
    _prepare_heads(loader)
    if type(loader.dataset) is LateDataset:
        return late_iterator
    if type(loader.dataset) in (CachedDataset, BatchedDataset):
        return _by_workers(loader) if loader.num_workers else _gathering(loader)
    return None


def _gathering(loader: Any) -> Callable[[Any], Any] | None:
    gathers = loader._auto_collation and loader.collate_fn is default_collate and _order_is_fixed(loader)
    return Gathering if gathers else None


def _by_workers(loader: Any) -> Callable[[Any], Any] | None:
    dataset = loader.dataset
    if type(dataset) is BatchedDataset or dataset._hotlap_kept.given_up:
        return None
    reason = _why_own_workers(loader)
    if reason is None:
        return InPlaceOfWorkers
    dataset._hotlap_kept.say(f"{type(dataset._hotlap_dataset).__name__} is read by its own workers: {reason}")
    return None


def _why_own_workers(loader: Any) -> str | None:
    """Why nothing can stand in the place of the workers of a loader over kept items."""
    if not loader._auto_collation:
        return "the loader makes no batches"
    if loader.timeout:
        return f"a batch may take {loader.timeout:g} s (timeout), which is counted for a worker"
    return why_no_copies(loader) or why_any_order(loader)


def _prepare_heads(loader: Any) -> None:
    """Have the heads of pipelines ready before workers are copies of this process."""
    dataset = loader.dataset
    while isinstance(dataset, StandIn) and type(dataset) is not PrefixDataset:
        dataset = dataset._hotlap_dataset
    if type(dataset) is not PrefixDataset or not loader.num_workers:
        return
    reason = why_no_copies(loader)
    if reason is None:
        dataset._hotlap_prepare(role_of(loader))
    else:
        dataset._hotlap_notes.say(f"heads of {type(dataset._hotlap_dataset).__name__} are not kept: {reason}")


def _order_is_fixed(loader: Any) -> bool:
    """True if the order of an epoch is settled with its first index, and is one of plain positions."""
    sampler = loader.sampler
    if type(loader.batch_sampler) is not BatchSampler or loader.batch_sampler.sampler is not sampler:
        return False
    if type(sampler) is RandomSampler:
        return not sampler.replacement and sampler.num_samples <= len(sampler.data_source)
    return type(sampler) in (SequentialSampler, SubsetRandomSampler, WeightedRandomSampler)


@final
class Gathering(_SingleProcessDataLoaderIter):
    """Without workers: a batch is a gather by a slice of the epoch's order."""

    _dataset: Any

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._sampler = loader.sampler
        self._pulled: deque[tuple[Any, Any]] = deque()
        self._num_whole: int | None = None

    def __next__(self) -> Any:
        """As torch's, without the mark for profilers (20 of 65 us of a batch of 32 rows) while there is none."""
        if _is_watched():
            return super().__next__()
        data = self._next_data()
        self._num_yielded += 1
        return data

    def _next_data(self) -> Any:
        if not self._pulled:
            self._pull()
        indices, index = self._pulled.popleft()
        batch = self._dataset._hotlap_batch(indices, index) if index is not None and torch_collates() else None
        data = batch[0] if batch is not None else self._dataset_fetcher.fetch(indices)
        return torch_pins(data, self._pin_memory_device) if self._pin_memory else data  # type: ignore[no-untyped-call]

    def _pull(self) -> None:
        """Ask torch's own batch sampler for the next batch, and for those behind it that can be had without a draw.

        The end of the order is never asked for ahead: `RandomSampler` draws once more when it gets there, which a loop
        that breaks off does not see.
        """
        batches = [next(self._sampler_iter)]  # StopIteration ends the epoch
        if self._num_whole is None:
            self._num_whole = self._count_whole(len(batches[0]))
        self._num_whole -= 1
        batches += itertools.islice(self._sampler_iter, max(0, min(self._num_whole, _BATCHES_AT_ONCE - 1)))
        self._num_whole -= len(batches) - 1
        index = self._positions([*itertools.chain.from_iterable(batches)])
        self._pulled.extend(
            zip(batches, itertools.repeat(None) if index is None else index.split([*map(len, batches)]), strict=False)
        )

    def _count_whole(self, batch_size: int) -> int:
        """Batches of this epoch that are full, and so end before the order does."""
        if type(self._sampler) is SubsetRandomSampler:
            return 0  # it looks its indices up in a list of the script's, one by one
        return int(len(self._sampler) // batch_size)

    def _positions(self, indices: list[Any]) -> Any:
        """(N,) the same as a tensor; None if they are no plain positions."""
        return positions(indices, {int}, len(self._dataset)) if set(map(type, indices)) == {int} else None


def _is_watched() -> bool:
    """True if each batch must go by torch's `__next__`: a profiler is on, or somebody has put his own there."""
    step: Any = _BaseDataLoaderIter.__next__
    return bool(step.__module__ != _TORCH or torch._C._autograd._profiler_enabled())


class InPlaceOfWorkers(_BaseDataLoaderIter):
    """With workers: what happens in this process happens in their order (torch's `_MultiProcessingDataLoaderIter`)."""

    def __init__(self, loader: Any) -> None:
        generator = torch.default_generator if loader.generator is None else loader.generator
        self._state_before_seed = generator.get_state()
        self._workers: Any = None
        self._fillers: Fillers | None = None
        self._filled: Filled | None = None
        super().__init__(loader)
        self._kept = loader.dataset._hotlap_kept
        self._cache: ForWorkers = self._kept.for_workers(ForWorkers)
        self._role = role_of(loader, int(self._base_seed))
        # Not the loader itself: it holds this iterator when its workers are persistent.
        self._loader = copy.copy(loader)
        self._loader.__dict__["_iterator"] = None
        self._reset(loader, first_iter=True)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        if self._workers is not None:
            self._workers._reset(loader, first_iter)
            return
        super()._reset(loader, first_iter)
        self._ahead: deque[Any] = deque()
        self._given = 0
        for _ in range(self._loader.prefetch_factor * self._num_workers):
            self._pull()
        if not self._ahead:
            return
        if first_iter:
            self._filled = self._cache.begin(self._ahead[0], self._role)
        # Persistent workers live on: what the script changes in the data set does not reach them.
        filled = self._filled
        if filled is None or self._kept.given_up:
            self._filled = None
            return
        if filled.present.any():
            self._cache.check(filled, self._role)
        for index in self._ahead:
            self._ask(index)

    def _pull(self) -> None:
        """One more batch of indices from the sampler, as soon as a worker would have been given it."""
        index = next(self._sampler_iter, None)
        if index is not None:
            self._ahead.append(index)
            self._ask(index)

    def _ask(self, index: Any) -> None:
        """Have the missing ones of these items computed."""
        filled = self._filled
        if filled is None or filled.full or not _plain(index, len(filled.present)):
            return
        missing = filled.missing(index)
        filled.asked(len(index), len(missing))
        if missing:
            if self._fillers is None:
                self._fillers = self._cache.fillers(filled, self._role)
            self._fillers.request(missing)

    def _next_data(self) -> Any:
        if self._workers is not None:
            return self._workers._next_data()
        if not self._ahead:
            if not self._persistent_workers:
                self._stop()
            raise StopIteration
        batch = self._serve(self._ahead[0])
        if batch is None:
            return self._start_workers()._next_data()
        self._ahead.popleft()
        self._given += 1
        self._pull()
        data = batch[0]
        return torch_pins(data, self._pin_memory_device) if self._pin_memory else data  # type: ignore[no-untyped-call]

    def _serve(self, indices: Any) -> tuple[Any] | None:
        """(the batch,); None if only the script's workers can tell."""
        filled = self._filled
        if filled is None or not _plain(indices, len(filled.present)) or not self._healthy():
            return None
        while filled.missing(indices):
            if self._fillers is None or self._fillers.trouble is not None:
                self._healthy()  # says what the trouble is
                return None
            filled.mark(self._fillers.wait(_WAIT_S))
        index = positions(indices, {int}, len(filled.present))
        if index is None:
            return None
        if self._collate_fn is default_collate:
            return (self._gathered(filled, index) if torch_collates() else None) or self._collated(filled, index)
        return self._collated(filled, index)

    def _gathered(self, filled: Filled, index: torch.Tensor) -> tuple[Any] | None:
        cache: CachedDataset = self._loader.dataset
        return cache._hotlap_gather(filled.store, index) if filled.full else filled.store.gather(index)

    def _collated(self, filled: Filled, index: torch.Tensor) -> tuple[Any] | None:
        """By the collate function, as long as it leaves all generators alone."""
        if not filled.exact_items:
            return None
        streams = Streams()
        before = streams.states()
        try:
            batch = self._collate_fn(filled.store.take(index.tolist()))
        except Exception:  # raised again where it belongs, in a worker
            streams.restore(before)
            return None
        drawn = streams.drawn(before)
        if drawn is not None:
            streams.restore(before)
            self._kept.give_up(f"the collate function draws random numbers (from {drawn}), so its own workers run it")
            return None
        return (batch,)

    def _healthy(self) -> bool:
        """True unless a process that fills or checks has found a reason to stop."""
        filled = self._filled
        doubts = None if filled is None else self._cache.doubts(filled)
        if doubts is not None:
            self._kept.give_up(f"{doubts}; kept items were dropped")
            warn(str(self._kept.note))
        if self._kept.given_up:
            return False
        if self._fillers is not None and filled is not None:
            filled.mark(self._fillers.poll())
            if self._fillers.refused:
                self._kept.give_up(str(self._fillers.trouble))
                return False
            if filled.full:
                self._fillers.stop()
                self._fillers = None
        return True

    def _start_workers(self) -> Any:
        """From this batch on the script's own workers, as if they had been there from the begin."""
        self._stop()
        rest = itertools.chain(self._ahead, self._sampler_iter)
        plain = copy.copy(self._loader)
        generator = torch.Generator()
        generator.set_state(self._state_before_seed)
        true_sampler = self._index_sampler
        plain.__dict__.update(
            dataset=self._kept.dataset, batch_sampler=rest, generator=generator, pin_memory=self._pin_memory
        )
        self._workers = _Late(plain, self._given % self._num_workers)
        self._workers._index_sampler = true_sampler
        return self._workers

    def _stop(self) -> None:
        if self._fillers is not None:
            self._fillers.stop()
            self._fillers = None

    def __del__(self) -> None:
        self._stop()


@final
class _Late(_MultiProcessingDataLoaderIter):
    """Workers that begin with the batch whose turn it is, not with the first."""

    def __init__(self, loader: Any, first_worker: int) -> None:
        self._skip = first_worker
        super().__init__(loader)

    def _try_put_index(self) -> None:
        while self._skip:
            next(self._worker_queue_idx_cycle)
            self._skip -= 1
        super()._try_put_index()


def _plain(indices: Any, length: int) -> bool:
    """True for a list of positions."""
    return isinstance(indices, list) and all(type(index) is int and 0 <= index < length for index in indices)
