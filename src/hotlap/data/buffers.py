"""Memory for batches that is used again once the script has let go of it.

A fresh batch of 800 kB costs 200 page faults (70 to 90 us of 370 us, measured); memory that was used a moment ago costs
none, and may still lie in the processor's cache.
"""

import sys
from math import prod
from typing import Any, cast, final

import torch

# Number of tensors that hold a storage. Private in torch, though there since 2.1: without it no memory is used again.
_num_holders: Any = getattr(torch._C, "_storage_Use_Count", None)

# Batches of one size that are held for later use; a script rarely keeps more than two at a time.
_MOST_HELD = 4

# Smaller blocks come from malloc's own lists, without page faults; of larger ones not so many are held.
_LEAST_BYTES = 64 << 10
_MOST_BYTES = 64 << 20

# To a held storage, as `_is_free` counts them: the entry in the list, a variable in each of two frames, the argument.
_OWN_REFERENCES = 4


@final
class Buffers:
    """Hands out (B, ...) tensors of one row shape and dtype."""

    def __init__(self, row_shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self._row_shape = row_shape
        self._dtype = dtype
        self._row_bytes = prod(row_shape) * torch.empty(0, dtype=dtype).element_size()
        self._held: list[tuple[Any, int, int]] = []

    def take(self, num_rows: int) -> torch.Tensor:
        """Uninitialised memory that no other tensor shares."""
        num_bytes = num_rows * self._row_bytes
        shape = (num_rows, *self._row_shape)
        # In inference mode a batch is a tensor of another kind, as torch's own would be.
        held = _num_holders is not None and _LEAST_BYTES <= num_bytes <= _MOST_BYTES
        if not held or torch.is_inference_mode_enabled():
            return torch.empty(shape, dtype=self._dtype, device="cpu")
        for place, (storage, address, held_bytes) in enumerate(self._held):
            if held_bytes == num_bytes and _is_free(storage, address, num_bytes):
                self._held.append(self._held.pop(place))
                again: Any = torch.empty(0, dtype=self._dtype, device="cpu")
                again.set_(storage, 0, shape)
                return cast(torch.Tensor, again)
        batch = torch.empty(shape, dtype=self._dtype, device="cpu")
        storage = batch.untyped_storage()
        self._held.append((storage, storage.data_ptr(), num_bytes))
        del self._held[:-_MOST_HELD]
        return batch


def _is_free(storage: Any, address: int, num_bytes: int) -> bool:
    """True if nobody but the list of held buffers knows this memory, and it is what it was.

    A script may keep a tensor, a view, an array over it or the storage itself, or may have resized it.
    """
    # References to the Python object: from the list, of both callers' variables, and the argument of getrefcount.
    alone = _num_holders(storage._cdata) == 1 and sys.getrefcount(storage) <= _OWN_REFERENCES
    return alone and storage.data_ptr() == address and storage.nbytes() == num_bytes
