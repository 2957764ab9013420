"""`cached(dataset)`: items are computed once, kept as contiguous arrays, and gathered a batch at a time."""

from pathlib import Path
from typing import Any, final
from weakref import WeakValueDictionary

import torch

from hotlap.data.item_cache.engine import ItemCache
from hotlap.data.item_cache.store import ColumnStore, Store
from hotlap.data.loader.fetch import Batch, torch_collates
from hotlap.data.wrapper import DatasetWrapper, check, put_in_place


class CacheWrapper(DatasetWrapper):
    """A data set of which something is kept in an `ItemCache`."""

    _hotlap_cache: ItemCache

    @property
    def num_cached(self) -> int:
        """Items kept now."""
        self._hotlap_cache.refused()
        return self._hotlap_cache.num_cached

    @property
    def note(self) -> str | None:
        """One sentence if items are not kept, or were dropped: what was seen."""
        self._hotlap_cache.refused()
        return self._hotlap_cache.note

    def _hotlap_settled(self) -> bool:
        kept = self._hotlap_cache
        return not kept.used or kept.refused() or kept.settled

    def _hotlap_idle(self) -> str | None:
        kept = self._hotlap_cache
        return None if kept.used and not kept.refused() else self.note or ""

    def _hotlap_begin_epoch(self) -> None:
        self._hotlap_cache.begin_epoch()

    def _hotlap_changed(self, name: str) -> None:
        self._hotlap_cache.drop(f"attribute {name} of the data set")


@final
class CachedDataset(CacheWrapper):
    """What `cached` returns: the data set itself to all who look, with kept items. See `cached`."""

    _hotlap_function = "cached"
    _hotlap_devices: Any
    """`hotlap.data.gather.resident.DeviceStore`: batches are gathered on a device; or None."""

    def __init__(self, dataset: Any, memory_bytes: int | None = None, disk: bool | str | Path = False) -> None:
        object.__setattr__(self, "_hotlap_dataset", dataset)
        object.__setattr__(self, "_hotlap_devices", None)
        object.__setattr__(self, "_hotlap_cache", ItemCache(dataset, memory_bytes=memory_bytes, disk=disk))

    @property
    def full(self) -> bool:
        """True if every item is kept."""
        return self._hotlap_cache.full

    @property
    def warm(self) -> bool:
        """True if the items were found on disk, as another run left them."""
        return self._hotlap_cache.warm

    @property
    def note(self) -> str | None:
        """One sentence if items are not kept, or were dropped, or are not on the device: what was seen."""
        devices = self._hotlap_devices
        return super().note or (None if devices is None else devices.note)

    def __getitem__(self, index: Any) -> Any:
        kept = self._hotlap_cache
        located = None if kept.given_up else kept.locate([index])
        if located is None:
            return kept.compute([index], single=True)
        store, positions = located
        return store.take(positions.tolist())[0] if kept.exact_items else kept.plain([index], single=True)

    def _hotlap_fetch(self, indices: Any, *, whole: bool) -> Any:
        kept = self._hotlap_cache
        if kept.given_up:
            return kept.plain(indices)
        if not hasattr(indices, "__len__"):
            indices = list(indices)
        elif isinstance(indices, torch.Tensor):
            indices = list(indices)  # what the loop of the DataLoader makes of it
        located = kept.locate(indices)
        if located is None:
            return kept.compute(indices)
        store, positions = located
        if whole and torch_collates():
            batch = self._hotlap_gather(store, positions) if kept.full else store.gather(positions)
            if batch is not None:
                return Batch(*batch)
        return store.take(positions.tolist()) if kept.exact_items else kept.plain(indices)

    def _hotlap_batch(self, indices: list[int], index: torch.Tensor) -> tuple[Any] | None:
        """(what `default_collate` makes of these items,), or None; `index`: (B,) the same numbers as a tensor."""
        store = self._hotlap_cache.ready(indices)
        return None if store is None else self._hotlap_gather(store, index)

    def _hotlap_settled(self) -> bool:
        kept, devices = self._hotlap_cache, self._hotlap_devices
        resides = devices is None or devices.settled or kept.given_up or not kept.used
        return super()._hotlap_settled() and resides

    def _hotlap_gather(self, store: Store, index: torch.Tensor) -> tuple[Any] | None:
        """A batch of a store that holds all items."""
        devices = self._hotlap_devices
        gathers = devices is not None and isinstance(store, ColumnStore)
        return devices.gather(store, index) if gathers else store.gather(index)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and spawned workers fill a cache of their own.
        kept = self._hotlap_cache
        return CachedDataset, (kept.dataset, kept.memory_bytes, kept.disk)


def cached(dataset: Any, *, memory_bytes: int | None = None, disk: bool | str | Path = False) -> CachedDataset:
    """A data set that computes each item of `dataset` once, on first use, and hands out the same batches sooner.

    `DataLoader(cached(train), batch_size=64, shuffle=True)` gives bit-identical batches and leaves every random stream
    as it would be. A complete batch for torch's own collate function is one gather per tensor; a collate function of
    the script's own gets ordinary, independent items.

    Items must always come out the same: one that draws random numbers is noticed at once, a change of what items are
    made from before the next batch, or the next epoch, and all else by computing kept items again as training goes on.
    Kept items are dropped then, and `note` says what was seen. What it cannot see is told in docs/data.md.

    Forked worker processes compute items into memory that all of them share. Once it holds all items, batches are
    gathered in the training process, and workers are started no more. Workers that are spawned keep nothing.

    Arguments:
        dataset: map-style: `dataset[i]` gives an item, `len(dataset)` their number. Not changed.
        memory_bytes: the most that kept items may take; None: 80% of what is free when the first batch is kept.

    Returns:
        The data set with kept items. Attributes are read from, and set on, the wrapped one. The same one for each call
        with the same arguments, as long as it is there: loaders over one data set share what is kept.
    """
    if type(dataset) is CachedDataset:
        return dataset
    check(CachedDataset, dataset)
    case = (id(dataset), memory_bytes, str(disk))
    made = _MADE.get(case)
    if made is None:
        made = _MADE[case] = put_in_place(CachedDataset(dataset, memory_bytes, disk))
    return made


_MADE: WeakValueDictionary[tuple[int, int | None, str], CachedDataset] = WeakValueDictionary()
"""Of a data set that one of these holds, the id stays its own."""
