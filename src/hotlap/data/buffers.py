"""Memory for batches that is used again once the script has let go of it.

A fresh batch of 800 kB costs 200 page faults (70 to 90 us of 370 us, measured); memory that was used a moment ago costs
none, and may still lie in the processor's cache.
"""

import sys
from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any, cast, final

import torch

from hotlap.data.memory import ALLOWANCE, limit_bytes

# Number of tensors that hold a storage. Private in torch, though there since 2.1.
_num_holders: Any = getattr(torch._C, "_storage_Use_Count", None)

# Batches of one size that are held for later use; a script rarely keeps more than two at a time.
_MOST_HELD = 4

# Smaller blocks come from malloc's own lists, without page faults; of larger ones not so many are held.
_LEAST_BYTES = 64 << 10
_MOST_BYTES = 64 << 20


@final
class _Blocks:
    """Storages that are held for later use."""

    def __init__(self) -> None:
        self._storages: list[Any] = []
        self._known: list[tuple[int, int, int]] = []
        """Of each: its number in torch, its address, and its bytes."""

    def __len__(self) -> int:
        return len(self._storages)

    @property
    def num_bytes(self) -> int:
        """Of all of them."""
        return sum(held_bytes for _, _, held_bytes in self._known)

    def add(self, batch: torch.Tensor) -> None:
        """Hold the memory of a batch, and let go of the oldest of too many."""
        storage = batch.untyped_storage()
        self._storages.append(storage)
        self._known.append((storage._cdata, storage.data_ptr(), storage.nbytes()))
        del self._storages[:-_MOST_HELD], self._known[:-_MOST_HELD]

    def holders(self) -> list[tuple[int, int]]:
        """(tensors, Python objects) that hold each of them, this list among them.

        Counted without a variable of Python's: what a variable adds depends on the interpreter (3.14 borrows some).
        """
        tensors = [_num_holders(number) for number, _, _ in self._known]
        return [*zip(tensors, map(sys.getrefcount, self._storages), strict=True)]

    def free(self, num_bytes: int, alone: tuple[int, int]) -> Any:
        """A storage of that size which nobody else knows, and which is what it was; None if there is none."""
        for place, holders in enumerate(self.holders()):
            number, address, held_bytes = self._known[place]
            if holders == alone and held_bytes == num_bytes:
                storage = self._storages.pop(place)
                self._storages.append(storage)
                self._known.append(self._known.pop(place))
                # A script may have resized it.
                if (storage._cdata, storage.data_ptr(), storage.nbytes()) == (number, address, held_bytes):
                    return storage
                return None
        return None


@cache
def alone() -> tuple[int, int] | None:
    """What `holders` gives for memory that nobody else knows; None if it gives the same for memory that is held.

    Tried, because what either number counts is documented nowhere.
    """
    if _num_holders is None:
        return None
    keeps: tuple[Callable[[torch.Tensor], Any], ...] = (
        lambda batch: batch, lambda batch: batch[1:2], lambda batch: batch.detach(), lambda batch: batch.numpy(),
        lambda batch: batch.untyped_storage(), lambda batch: memoryview(cast(Any, batch.numpy())),
    )  # fmt: skip
    free: set[tuple[int, int]] = set()
    held: set[tuple[int, int]] = set()
    with torch.inference_mode(False):
        for keep in keeps:
            blocks = _Blocks()
            batch = torch.empty(16, device="cpu")
            blocks.add(batch)
            kept: Any = keep(batch)
            del batch
            held.update(blocks.holders())
            del kept
            free.update(blocks.holders())
    return free.pop() if len(free) == 1 and not free & held else None


@final
class Buffers:
    """Hands out (B, ...) tensors of one row shape and dtype."""

    def __init__(self, row_shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self._row_shape = row_shape
        self._dtype = dtype
        self._row_bytes = prod(row_shape) * torch.empty(0, dtype=dtype).element_size()
        self._held = _Blocks()
        self._allowed_bytes = 0

    def take(self, num_rows: int) -> torch.Tensor:
        """Uninitialised memory that no other tensor shares."""
        num_bytes = num_rows * self._row_bytes
        shape = (num_rows, *self._row_shape)
        # In inference mode a batch is a tensor of another kind, as torch's own would be.
        nobody = alone() if _LEAST_BYTES <= num_bytes <= _MOST_BYTES else None
        if nobody is None or torch.is_inference_mode_enabled():
            return torch.empty(shape, dtype=self._dtype, device="cpu")
        storage = self._held.free(num_bytes, nobody)
        if storage is not None:
            again: Any = torch.empty(0, dtype=self._dtype, device="cpu")
            again.set_(storage, 0, shape)
            return cast(torch.Tensor, again)
        batch = torch.empty(shape, dtype=self._dtype, device="cpu")
        self._hold(batch, num_bytes)
        return batch

    def _hold(self, batch: torch.Tensor, num_bytes: int) -> None:
        """Hold its memory, if this may take as much."""
        wanted = self._held.num_bytes + num_bytes
        if wanted > self._allowed_bytes:
            if wanted > limit_bytes(owner=self, in_use_bytes=self._held.num_bytes):
                return
            ALLOWANCE.take(self, wanted)
            self._allowed_bytes = wanted
        self._held.add(batch)
