"""Batches of bytes on their way from the fetcher to the script, and the iterators that make numbers of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch.utils._pytree import tree_unflatten
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter

from hotlap.data.item.codec import flatten_batch
from hotlap.data.transforms.normalize import DeferredSteps


@dataclass(frozen=True, slots=True)
class Leaf:
    """One tensor of a batch that is bytes still."""

    number: int
    """Among all leaves of the batch."""
    tail: DeferredSteps
    channels_last: bool


@final
class LateBatch:
    """A collated batch with bytes in some places. Workers send it, and it can be pinned, as any other."""

    __slots__ = ("leaves", "value")

    def __init__(self, value: Any, leaves: Sequence[Leaf]) -> None:
        self.value = value
        self.leaves = leaves

    def pin_memory(self) -> "LateBatch":
        """As torch's loader calls it."""
        return LateBatch(pin_memory(self.value), self.leaves)  # type: ignore[no-untyped-call]

    def __reduce__(self) -> tuple[Any, ...]:
        return LateBatch, (self.value, self.leaves)


def finish(data: Any) -> Any:
    """The batch as the script knows it, numbers in place of bytes; what is no `LateBatch` as it is."""
    if type(data) is not LateBatch:
        return data
    parts, structure = flatten_batch(data.value)
    for leaf in data.leaves:
        parts[leaf.number] = _numbers(parts[leaf.number], leaf)
    return tree_unflatten(parts, structure)


def _numbers(bytes_: torch.Tensor, leaf: Leaf) -> torch.Tensor:
    pinned = torch.cuda.is_available() and bytes_.is_pinned()
    if leaf.channels_last:
        num_items, rows, columns, channels = bytes_.shape
        shape = (num_items, channels, rows, columns)
        out = torch.empty(shape, dtype=torch.float32, device="cpu", pin_memory=pinned)
    else:
        out = torch.empty_like(bytes_, dtype=torch.float32, pin_memory=pinned)
    return leaf.tail.apply(bytes_, out, channels_last=leaf.channels_last)


@final
class LateIterator(_SingleProcessDataLoaderIter):
    """torch's own, without workers."""

    def _next_data(self) -> Any:
        return finish(super()._next_data())  # type: ignore[no-untyped-call]


@final
class LateWorkers(_MultiProcessingDataLoaderIter):
    """torch's own, with workers."""

    def _next_data(self) -> Any:
        return finish(super()._next_data())  # type: ignore[no-untyped-call]
