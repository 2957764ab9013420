"""Batches replayed from memory: what would training cost if its input were free?"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_map_only
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

from hotlap import accelerator

# Batches kept per loader. A few, so that the model does not see one batch for ever; few, so that they fit.
_KEPT = 4


@dataclass(slots=True)
class _Epoch:
    """One pass over a loader. (The loader itself may be gone: `for batch in DataLoader(...)` drops it.)"""

    loader_id: int | None
    length: int | None
    given: int = 0


class Replay:
    """Remembers which iterator belongs to which loader, and the first batches of each loader."""

    def __init__(self) -> None:
        self._epochs: weakref.WeakKeyDictionary[Any, _Epoch] = weakref.WeakKeyDictionary()
        self._kept: dict[int | None, list[Any]] = {}

    def started(self, iterator: Any, *, loader_id: int | None, length: int | None) -> None:
        """`iter(loader)` gave `iterator`; `length`: batches of an epoch, if that is known."""
        self._epochs[iterator] = _Epoch(loader_id, length)

    def loader_id(self, iterator: Any) -> int | None:
        """The loader that `iterator` came from; None if nobody knows."""
        epoch = self._epochs.get(iterator)
        return epoch.loader_id if epoch is not None else None

    def keep(self, iterator: Any, batch: Any) -> None:
        """A real batch; the first few are kept."""
        epoch = self._epochs.get(iterator)
        if epoch is None:
            return
        epoch.given += 1
        kept = self._kept.setdefault(epoch.loader_id, [])
        if len(kept) < _KEPT:
            kept.append(copy(batch))

    def ready(self) -> bool:
        """There is something to replay."""
        return any(self._kept.values())

    def next(self, iterator: Any, draw: Callable[[Any], Any]) -> Any:
        """A batch for nothing; ends the epoch when the loader would. `draw` gives the loader's own."""
        epoch = self._epochs.get(iterator)
        kept = self._kept.get(epoch.loader_id) if epoch is not None else None
        if epoch is None or not kept:
            return draw(iterator)
        if isinstance(iterator, _SingleProcessDataLoaderIter):
            next(iterator._sampler_iter)  # raises StopIteration at the end of the epoch
        elif epoch.length is not None and epoch.given >= epoch.length:
            raise StopIteration
        epoch.given += 1
        return copy(kept[epoch.given % len(kept)])


def copy(batch: Any) -> Any:
    """A batch that the script may change in place without changing ours."""
    return tree_map_only(torch.Tensor, _copied, batch)


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    # What was pinned stays so: to the device it must travel as the script's own does.
    return torch.empty_like(tensor, pin_memory=True).copy_(tensor) if accelerator.is_pinned(tensor) else tensor.clone()
