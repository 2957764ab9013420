"""Batches replayed from memory: what would training cost if its input were free?"""

import weakref
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

# Batches kept per loader. A few, so that the model does not see one batch for ever; few, so that they fit.
_KEPT = 4


class Replay:
    """Remembers which iterator belongs to which loader, and the last batches of each."""

    def __init__(self) -> None:
        self._loaders: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._kept: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
        self._given: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def started(self, loader: "DataLoader[Any]", iterator: Any) -> None:
        """`iter(loader)` gave `iterator`."""
        self._loaders[iterator] = weakref.ref(loader)
        self._given[iterator] = 0

    def loader_of(self, iterator: Any) -> Any:
        """The loader that `iterator` came from; None if it was made otherwise."""
        reference = self._loaders.get(iterator)
        return reference() if reference is not None else None

    def keep(self, iterator: Any, batch: Any) -> None:
        """A real batch; the first few are kept."""
        self._given[iterator] = self._given.get(iterator, 0) + 1
        loader = self.loader_of(iterator)
        if loader is None:
            return
        kept = self._kept.setdefault(loader, [])
        if len(kept) < _KEPT:
            kept.append(copy(batch))

    def ready(self, wanted: bool) -> bool:
        """There is something to replay, or nobody wants it."""
        return not wanted or any(self._kept.values())

    def next(self, iterator: Any) -> Any:
        """A batch for nothing; ends the epoch when the loader would."""
        loader = self.loader_of(iterator)
        kept = self._kept.get(loader) if loader is not None else None
        if not kept:
            return iterator._next_data()
        given = self._given.get(iterator, 0)
        self._given[iterator] = given + 1
        if isinstance(iterator, _SingleProcessDataLoaderIter):
            next(iterator._sampler_iter)  # raises StopIteration at the end of the epoch
        elif given >= len(loader):
            raise StopIteration
        return copy(kept[given % len(kept)])


def copy(batch: Any) -> Any:
    """A batch that the script may change in place without changing ours."""
    if isinstance(batch, torch.Tensor):
        return batch.clone()
    if isinstance(batch, dict):
        return type(batch)({key: copy(value) for key, value in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(copy(value) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(copy(value) for value in batch)
    return batch
