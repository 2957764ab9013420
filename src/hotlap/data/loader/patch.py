"""`DataLoader` patched: over data sets of this package it takes a shorter way to the same batches.

Over a cached data set, `iter(loader)` gives torch's own bookkeeping, without the work. A loader without workers:
torch's own samplers are asked for some batches at a time, where that draws nothing, and a batch is a gather by a slice
of these indices. A loader with workers: batches are gathered in this process, while base seed, samplers and the batches
that workers are ahead go on exactly as if the workers were there; on the first doubt they are started after all, at
that batch, with the seed that they would have had.
"""

import copy
import itertools
from collections import deque
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, final

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
    default_collate,
)
from torch.utils.data._utils.pin_memory import pin_memory as torch_pins
from torch.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

from hotlap.data.checks.random_state import Streams
from hotlap.data.gather.batched import BatchedDataset
from hotlap.data.item_cache.cached import CachedDataset
from hotlap.data.item_cache.for_workers import before_workers, goes_on, still_holds
from hotlap.data.loader.fetch import collated, plain_positions, positions, role_of, torch_collates, why_no_copies
from hotlap.data.prefix_cache.cached_prefix import PrefixDataset
from hotlap.data.wrapper import DatasetWrapper, WholeBatches

_TORCH = _BaseDataLoaderIter.__module__

# Batches whose indices become one tensor: 8 us a batch of 32 with its share of the sampler, one by one 16 us.
_BATCHES_AT_ONCE = 64


def patch_loaders() -> None:
    """From now on, loaders over data sets of ours take the shorter way."""
    loader: Any = DataLoader
    get_iterator = loader._get_iterator
    if hasattr(get_iterator, "_hotlap_patched"):
        return

    @wraps(get_iterator)
    def _get_iterator(loader: Any) -> Any:
        if isinstance(loader.dataset, DatasetWrapper):
            loader.dataset._hotlap_begin_epoch()
        short = _shorter(loader)
        return get_iterator(loader) if short is None else short(loader)

    _get_iterator._hotlap_patched = True  # type: ignore[attr-defined]
    loader._get_iterator = _get_iterator


def _shorter(loader: Any) -> Callable[[Any], Any] | None:
    kind, prepared = type(loader.dataset), _prepare_for_workers(loader)
    if kind is CachedDataset and prepared:
        return InPlaceOfWorkers if _can_gather(loader) else FillingWorkers
    if not _torch_makes_batches(loader) or kind not in (CachedDataset, BatchedDataset, PrefixDataset):
        return None
    if loader.num_workers:
        return Workers
    return _whole_batches if kind is PrefixDataset else Gathering


def _torch_makes_batches(loader: Any) -> bool:
    return bool(loader._auto_collation and loader.collate_fn is default_collate)


def _with_whole_batches(loader: Any) -> Any:
    """A loader over a data set of ours as torch's iterators know it."""
    inner = copy.copy(loader)
    inner.__dict__.update(dataset=WholeBatches(loader.dataset), collate_fn=collated, _iterator=None)
    return inner


def _whole_batches(loader: Any) -> Any:
    """Torch's own iterator without workers, for a data set that makes batches itself."""
    return _SingleProcessDataLoaderIter(_with_whole_batches(loader))


def _prepare_for_workers(loader: Any) -> bool:
    """Have what is kept of items ready before workers are copies of this process; False if there is no such thing."""
    dataset = loader.dataset
    if type(dataset) not in (CachedDataset, PrefixDataset) or not loader.num_workers or dataset._hotlap_cache.given_up:
        return False
    kept, reason = dataset._hotlap_cache, why_no_copies(loader)
    if reason is not None:
        kept.say(f"{kept.name} is read by its own workers: {reason}")
    elif type(dataset) is PrefixDataset:
        kept.prepare(role=role_of(loader))
    else:
        before_workers(kept, role_of(loader))
    return reason is None


def _order_is_fixed(loader: Any) -> bool:
    """True if the order of an epoch is settled with its first index, and is one of plain positions. (A subset's is
    looked up, index by index, in a list of the script's.)"""
    sampler = loader.sampler
    if type(loader.batch_sampler) is not BatchSampler or loader.batch_sampler.sampler is not sampler:
        return False
    if type(sampler) is RandomSampler:
        return not sampler.replacement and sampler.num_samples <= len(sampler.data_source)
    return type(sampler) in (SequentialSampler, WeightedRandomSampler)


@final
class Gathering(_SingleProcessDataLoaderIter):
    """Without workers: a batch is a gather by a slice of the epoch's order, where that is known ahead."""

    def __init__(self, loader: Any) -> None:
        super().__init__(_with_whole_batches(loader))
        self._gathered = loader.dataset
        self._pulled: deque[tuple[Any, Any]] = deque()
        fixed = _order_is_fixed(loader)
        self._num_whole = len(loader.sampler) // loader.batch_sampler.batch_size if fixed else None
        """Batches that are left of an order that is known ahead, full ones: these end before the order does."""

    def __next__(self) -> Any:
        """As torch's, without the mark for profilers (20 of 65 us of a batch of 32 rows) while there is none."""
        step: Any = _BaseDataLoaderIter.__next__
        if step.__module__ != _TORCH or torch._C._autograd._profiler_enabled():  # or somebody has put his own there
            return super().__next__()
        data = self._next_data()
        self._num_yielded += 1
        return data

    def _next_data(self) -> Any:
        if not self._pulled:
            self._pull()
        indices, index = self._pulled.popleft()
        batch = self._gathered._hotlap_batch(indices, index) if index is not None and torch_collates() else None
        data = batch[0] if batch is not None else self._dataset_fetcher.fetch(indices)
        return torch_pins(data, self._pin_memory_device) if self._pin_memory else data  # type: ignore[no-untyped-call]

    def _pull(self) -> None:
        """Ask torch's own batch sampler for the next batch, and for those behind it that can be had without a draw.

        The end of the order is never asked for ahead: `RandomSampler` draws once more when it gets there, which a loop
        that breaks off does not see.
        """
        batches = [next(self._sampler_iter)]  # StopIteration ends the epoch
        if self._num_whole is None:
            self._pulled.append((batches[0], None))
            return
        batches += itertools.islice(self._sampler_iter, max(0, min(self._num_whole, _BATCHES_AT_ONCE) - 1))
        self._num_whole -= len(batches)
        # Of torch's own samplers, so that all of them are Python's own numbers.
        index: Any = positions([*itertools.chain.from_iterable(batches)], {int}, len(self._gathered))
        self._pulled.extend(
            zip(batches, itertools.repeat(None) if index is None else index.split([*map(len, batches)]), strict=False)
        )


class Workers(_MultiProcessingDataLoaderIter):
    """torch's own workers, which send whole batches."""

    def __init__(self, loader: Any) -> None:
        super().__init__(_with_whole_batches(loader) if _torch_makes_batches(loader) else loader)


@final
class FillingWorkers(Workers):
    """Workers that fill the cache; persistent ones end with the epoch in which it became full."""

    def __init__(self, loader: Any) -> None:
        self._cache = loader.dataset._hotlap_cache
        self._progress = self._cache.progress
        super().__init__(loader)

    def _next_data(self) -> Any:
        try:
            return super()._next_data()  # type: ignore[no-untyped-call]
        except StopIteration:
            self._cache.look_if_full()
            raise

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        if not first_iter and goes_on(self._cache, self._progress) and _can_gather(loader):
            self._shutdown_workers()
            loader._iterator = _without_a_draw(loader, partial(InPlaceOfWorkers, resumed=True))
        else:
            super()._reset(loader, first_iter)


@final
class InPlaceOfWorkers(_BaseDataLoaderIter):
    """Where all items are kept: what happens in this process happens in the order in which it does with workers."""

    _dataset: Any

    def __init__(self, loader: Any, *, resumed: bool = False) -> None:
        """`resumed`: persistent workers were there before."""
        super().__init__(loader)
        self._num_ahead = loader.prefetch_factor * self._num_workers
        self._store, self._progress = self._dataset._hotlap_cache.shared_store(), self._dataset._hotlap_cache.progress
        if not resumed:
            super()._reset(loader, True)  # as torch does, which asks a sampler for two iterators
        self._ahead: deque[Any] = deque(itertools.islice(self._sampler_iter, self._num_ahead))

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        if still_holds(self._dataset._hotlap_cache, self._progress, role_of(loader)):
            super()._reset(loader, first_iter)
            self._ahead = deque(itertools.islice(self._sampler_iter, self._num_ahead))
        else:
            loader._iterator = _without_a_draw(loader, _MultiProcessingDataLoaderIter)

    def _next_data(self) -> Any:
        if not self._ahead:
            raise StopIteration
        indices = self._ahead.popleft()
        self._ahead.extend(itertools.islice(self._sampler_iter, 1))  # as soon as a worker would have been given it
        data = self._batch(indices)
        return torch_pins(data, self._pin_memory_device) if self._pin_memory else data  # type: ignore[no-untyped-call]

    def _batch(self, indices: Any) -> Any:
        index = plain_positions(indices, len(self._dataset))
        batch = self._dataset._hotlap_gather(self._store, index) if index is not None and torch_collates() else None
        if batch is not None:
            return batch[0]
        if index is not None:
            return default_collate(self._store.take(indices))
        streams = Streams()
        before = streams.states()
        try:
            return default_collate(self._dataset._hotlap_cache.plain(indices))
        finally:
            streams.restore(before)


def _can_gather(loader: Any) -> bool:
    """True if workers would do nothing but gather."""
    return _torch_makes_batches(loader) and loader.dataset._hotlap_cache.shared_store() is not None


def _without_a_draw(loader: Any, make: Callable[[Any], Any]) -> Any:
    """An iterator in the place of another one, which has drawn the base seed of both."""
    same = copy.copy(loader)
    same.__dict__.update(generator=torch.Generator(), _iterator=None)
    return make(same)
