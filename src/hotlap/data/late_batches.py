"""Batches of bytes on their way from the fetcher to the script, and the iterators that make numbers of them."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter

from hotlap.data.buffers import Buffers
from hotlap.data.tails import Tail

# Shapes of rows whose memory is used again; a script whose pictures keep changing in size needs it for the last few.
_MOST_SHAPES = 4


@dataclass(frozen=True, slots=True)
class Leaf:
    """One tensor of a batch that is bytes still."""

    path: tuple[Any, ...]
    """Keys and places that lead to it, from the outside in."""
    tail: Tail
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


@final
class Finisher:
    """Makes numbers of bytes."""

    def __init__(self) -> None:
        self._buffers: OrderedDict[tuple[int, ...], Buffers] = OrderedDict()

    def finish(self, data: Any) -> Any:
        """The batch as the script knows it; what is no `LateBatch` as it is."""
        if type(data) is not LateBatch:
            return data
        value = data.value
        for leaf in data.leaves:
            value = _put(value, leaf.path, self._numbers(_get(value, leaf.path), leaf))
        return value

    def _numbers(self, bytes_: torch.Tensor, leaf: Leaf) -> torch.Tensor:
        num_items, *shape = bytes_.shape
        if leaf.channels_last:
            shape = [shape[2], *shape[:2]]
        out = self._empty(num_items, tuple(shape), bytes_, keeps_order=not leaf.channels_last)
        return leaf.tail.apply(bytes_, out, channels_last=leaf.channels_last)

    def _empty(self, num_items: int, shape: tuple[int, ...], like: torch.Tensor, *, keeps_order: bool) -> torch.Tensor:
        if keeps_order and not like.is_contiguous():
            return torch.empty_like(
                like, dtype=torch.float32, pin_memory=torch.cuda.is_available() and like.is_pinned()
            )
        if torch.cuda.is_available() and like.is_pinned():
            return torch.empty((num_items, *shape), dtype=torch.float32, device="cpu", pin_memory=True)
        buffers = self._buffers.pop(shape, None) or Buffers(shape, torch.float32)
        self._buffers[shape] = buffers  # the one used last is at the end
        if len(self._buffers) > _MOST_SHAPES:
            self._buffers.popitem(last=False)
        return buffers.take(num_items)


@final
class LateIterator(_SingleProcessDataLoaderIter):
    """torch's own, without workers."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._finisher = Finisher()

    def _next_data(self) -> Any:
        return self._finisher.finish(super()._next_data())  # type: ignore[no-untyped-call]


@final
class LateWorkers(_MultiProcessingDataLoaderIter):
    """torch's own, with workers."""

    def __init__(self, loader: Any) -> None:
        self._finisher = Finisher()
        super().__init__(loader)

    def _next_data(self) -> Any:
        return self._finisher.finish(super()._next_data())  # type: ignore[no-untyped-call]


def _get(value: Any, path: Sequence[Any]) -> Any:
    for key in path:
        value = value[key]
    return value


def _put(value: Any, path: Sequence[Any], leaf: Any) -> Any:
    if not path:
        return leaf
    key = path[0]
    inner = _put(value[key], path[1:], leaf)
    if isinstance(value, tuple):  # a named one: of others, `default_collate` makes lists
        kind: Any = type(value)
        return kind(*value[:key], inner, *value[key + 1 :])
    value[key] = inner
    return value
