"""`DataLoader` patched: over data sets of this package it takes a shorter way to the same batches."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    default_collate,
)

from hotlap.data.gather.batched import BatchedDataset
from hotlap.data.item_cache.cached import CachedDataset
from hotlap.data.item_cache.for_workers import before_workers
from hotlap.data.loader.iterators import FillingWorkers, Gathering, InPlaceOfWorkers, can_gather
from hotlap.data.loader.workers import role_of, why_no_copies
from hotlap.data.prefix_cache.cached_prefix import PrefixDataset
from hotlap.data.transforms.late import LateDataset, late_iterator
from hotlap.data.wrapper import DatasetWrapper


def patched(get_iterator: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`DataLoader._get_iterator`, with a shorter way for cached data sets."""

    @wraps(get_iterator)
    def _get_iterator(loader: Any) -> Any:
        if isinstance(loader.dataset, DatasetWrapper):
            loader.dataset._hotlap_begin_epoch()
        short = _shorter(loader)
        return get_iterator(loader) if short is None else short(loader)

    _get_iterator._hotlap_patched = True  # type: ignore[attr-defined]
    return _get_iterator


def patch_loaders() -> None:
    """For use by hand: from now on, loaders over cached data sets take the shorter way."""
    if not getattr(DataLoader._get_iterator, "_hotlap_patched", False):
        loader: Any = DataLoader
        loader._get_iterator = patched(loader._get_iterator)


def _shorter(loader: Any) -> Callable[[Any], Any] | None:
    prepared = _prepare_for_workers(loader)
    if type(loader.dataset) is LateDataset:
        return late_iterator
    if type(loader.dataset) in (CachedDataset, BatchedDataset) and not loader.num_workers:
        return _gathering(loader)
    if type(loader.dataset) is CachedDataset and prepared:
        return InPlaceOfWorkers if can_gather(loader) else FillingWorkers
    return None


def _gathering(loader: Any) -> Callable[[Any], Any] | None:
    gathers = loader._auto_collation and loader.collate_fn is default_collate and _order_is_fixed(loader)
    return Gathering if gathers else None


def _prepare_for_workers(loader: Any) -> bool:
    """Have what is kept of items ready before workers are copies of this process; False if there is no such thing."""
    dataset = loader.dataset
    if type(dataset) is LateDataset:
        dataset = dataset._hotlap_dataset
    if type(dataset) not in (CachedDataset, PrefixDataset) or not loader.num_workers or dataset._hotlap_cache.given_up:
        return False
    kept, reason = dataset._hotlap_cache, why_no_copies(loader)
    if reason is not None:
        kept.say(f"{kept.name} is read by its own workers: {reason}")
    elif type(dataset) is PrefixDataset:
        kept.prepare(role_of(loader))
    else:
        before_workers(kept, role_of(loader))
    return reason is None


def _order_is_fixed(loader: Any) -> bool:
    """True if the order of an epoch is settled with its first index, and is one of plain positions."""
    sampler = loader.sampler
    if type(loader.batch_sampler) is not BatchSampler or loader.batch_sampler.sampler is not sampler:
        return False
    if type(sampler) is RandomSampler:
        return not sampler.replacement and sampler.num_samples <= len(sampler.data_source)
    return type(sampler) in (SequentialSampler, SubsetRandomSampler, WeightedRandomSampler)
