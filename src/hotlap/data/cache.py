"""`cached(dataset)`: items are computed once, kept as contiguous arrays, and gathered a batch at a time."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, final

import torch
from torch.utils.data import Dataset, IterableDataset, Subset, default_collate
from torch.utils.data._utils.collate import default_collate_fn_map
from torch.utils.data._utils.fetch import _MapDatasetFetcher

from hotlap.data.kept import Kept
from hotlap.errors import UserError


class _Batch:
    """A collated batch on its way through `default_collate`, which hands it on as it is."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _unwrap(batch: list[_Batch], *, collate_fn_map: Any = None) -> Any:
    return batch[0].value


# The extension point that torch documents for `default_collate`: a collate function for a type of its own.
# https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.default_collate
default_collate_fn_map.setdefault(_Batch, _unwrap)
# If the script registers more, or other, functions later, torch is left to collate true items.
_KNOWN_MAP = dict(default_collate_fn_map)

_FETCH_CODE = _MapDatasetFetcher.fetch.__code__
_SUBSET_CODE = Subset.__getitems__.__code__


def _goes_to_default_collate(frame: FrameType | None) -> bool:
    """True if what `__getitems__` returns to this caller is handed to `default_collate` and to nothing else.

    Any other reader (a collate function of the script, another data set) gets a plain list of plain items.
    """
    while frame is not None and frame.f_code is _SUBSET_CODE:
        frame = frame.f_back
    return (
        frame is not None
        and frame.f_code is _FETCH_CODE
        and frame.f_locals["self"].collate_fn is default_collate
        and torch_collates()
    )


def torch_collates() -> bool:
    """True if `default_collate` does what torch wrote: no function of the script's, no default device."""
    return bool(default_collate_fn_map == _KNOWN_MAP and torch._C._len_torch_function_stack() == 0)


@final
class CachedDataset(Dataset[Any]):
    """What `cached` returns: the data set itself to all who look, with kept items. See `cached`."""

    _hotlap_kept: Kept

    def __init__(self, dataset: Any, memory_bytes: int | None = None, disk: bool | str | Path = False) -> None:
        object.__setattr__(self, "_hotlap_kept", Kept(dataset, memory_bytes=memory_bytes, disk=disk))

    @property
    def num_cached(self) -> int:
        """Items kept now."""
        by_workers = self._hotlap_kept.by_workers
        return self._hotlap_kept.num_cached if by_workers is None else int(by_workers.present.sum())

    @property
    def full(self) -> bool:
        """True if every item is kept."""
        by_workers = self._hotlap_kept.by_workers
        return self._hotlap_kept.full or (by_workers is not None and by_workers.full)

    @property
    def warm(self) -> bool:
        """True if the items were found on disk, as another run left them."""
        return self._hotlap_kept.warm

    @property
    def note(self) -> str | None:
        """One sentence if items are not kept, or were dropped: what was seen."""
        return self._hotlap_kept.note

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The wrapped data set's: a script that asks `isinstance(loader.dataset, MNIST)` must hear what it would."""
        kept = self.__dict__.get("_hotlap_kept")
        return type(self) if kept is None else type(kept.dataset)

    def __len__(self) -> int:
        return len(self._hotlap_kept.dataset)

    def __getitem__(self, index: Any) -> Any:
        kept = self._hotlap_kept
        if kept.given_up:
            return kept.plain([index], single=True)
        located = kept.locate([index])
        if located is None:
            return kept.plain([index], single=True) if kept.given_up else kept.compute([index], single=True)
        store, positions = located
        return store.take(positions.tolist())[0] if kept.exact_items else kept.plain([index], single=True)

    def __getitems__(self, indices: Any) -> Any:
        kept = self._hotlap_kept
        if kept.given_up:
            return kept.plain(indices)
        if not hasattr(indices, "__len__"):
            indices = list(indices)
        elif isinstance(indices, torch.Tensor):
            indices = list(indices)  # what the loop of the DataLoader makes of it
        located = kept.locate(indices)
        if located is None:
            return kept.plain(indices) if kept.given_up else kept.compute(indices)
        store, positions = located
        if _goes_to_default_collate(sys._getframe(1)):
            batch = store.gather(positions)
            if batch is not None:
                return [_Batch(batch[0])]
        return store.take(positions.tolist()) if kept.exact_items else kept.plain(indices)

    def __iter__(self) -> Iterator[Any]:
        dataset = self._hotlap_kept.dataset
        if hasattr(type(dataset), "__iter__") and not isinstance(dataset, list | tuple):
            return iter(dataset)
        return self._items()

    def _items(self) -> Iterator[Any]:
        position = 0
        while True:
            try:
                item = self[position]
            except IndexError:
                return
            yield item
            position += 1

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_hotlap"):
            raise AttributeError(name)
        return getattr(self._hotlap_kept.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._hotlap_kept.drop(f"attribute {name} of the data set")
        setattr(self._hotlap_kept.dataset, name, value)

    def __delattr__(self, name: str) -> None:
        self._hotlap_kept.drop(f"attribute {name} of the data set")
        delattr(self._hotlap_kept.dataset, name)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and spawned workers fill a cache of their own.
        kept = self._hotlap_kept
        return CachedDataset, (kept.dataset, kept.memory_bytes, kept.disk)


def cached(dataset: Any, *, memory_bytes: int | None = None, disk: bool | str | Path = False) -> CachedDataset:
    """A data set that computes each item of `dataset` once, on first use, and hands out the same batches sooner.

    `DataLoader(cached(train), batch_size=64, shuffle=True)` gives bit-identical batches and leaves every random stream
    as it would be. A complete batch for torch's own collate function is one gather per tensor; a collate function of
    the script's own gets ordinary, independent items.

    Items must always come out the same. An item that draws from `random`, NumPy, torch or a generator found in the
    data set is noticed at once. A data set whose attributes, transforms, length or tensors were changed is dropped and
    filled again. All else (the clock, files that change, generators and state in hidden places) is looked for by
    computing kept items again as training goes on, one in 16 batches and within 2% of the time; on the first
    difference true items are handed out from then on, with a warning. `note` says what was seen.

    What it cannot see: a data set that counts its calls, prints, or keeps state in C, on disk or in large containers
    does so less often; the few items computed twice do so once more; hidden state that changes from one item to the
    next may be handed out stale for some batches, until the next check.

    With worker processes each worker keeps a copy of its own (and loses it when it ends): it works, but takes memory
    for each and is seldom worth it.

    Arguments:
        dataset: map-style: `dataset[i]` gives an item, `len(dataset)` their number. Not changed.
        memory_bytes: the most that kept items may take; None: 80% of what is free when the first batch is kept.

    Returns:
        The data set with kept items. Attributes are read from, and set on, the wrapped one.
    """
    if type(dataset) is CachedDataset:
        return dataset
    if isinstance(dataset, IterableDataset) or not hasattr(type(dataset), "__getitem__"):
        raise UserError(
            f"cached() got a {type(dataset).__name__}, which has no items to look up by number. "
            "Give it a map-style data set: one with __getitem__ and __len__."
        )
    from hotlap.data.iterators import teach

    teach()
    return CachedDataset(dataset, memory_bytes, disk)
