"""One block of memory for all columns, which other processes and a file can share.

Private memory of this process cannot be filled by forked ones, and is gone when the process is.
"""

import mmap
from math import prod
from typing import Any, final

import torch

from hotlap.data.store import ColumnStore

# Each column begins on a page of its own.
_PAGE_BYTES = 4096


@final
class Arena:
    """Pages that forked processes share: anonymous ones, or those of a file that is as long."""

    def __init__(self, num_bytes: int, *, file: int | None = None, read_only: bool = False) -> None:
        # copy-on-write for a finished file: whatever happens in this process, the file stays as it was checked
        mode = {"access": mmap.ACCESS_COPY} if read_only else {}
        self.pages = mmap.mmap(-1 if file is None else file, max(1, num_bytes), **mode)
        self.num_bytes = num_bytes
        self._used_bytes = 0

    def allocate(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """The next part of the block. It stays mapped as long as a tensor lies in it."""
        numel = prod(shape)
        if numel == 0:
            return torch.empty(shape, dtype=dtype, device="cpu")
        tensor: Any = torch.frombuffer(self.pages, dtype=dtype, count=numel, offset=self._used_bytes)
        self._used_bytes += _whole_pages(numel * tensor.element_size())
        whole: torch.Tensor = tensor.view(shape)
        return whole


def arena_bytes(sample: Any, num_items: int) -> int:
    """What an arena must hold for N items like `sample`."""
    total = 0

    def count(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        nonlocal total
        none = torch.empty((0, *shape[1:]), dtype=dtype, device="cpu")
        total += _whole_pages(prod(shape) * none.element_size())
        return none

    ColumnStore(sample, num_items, count)
    return total


def _whole_pages(num_bytes: int) -> int:
    return -(-num_bytes // _PAGE_BYTES) * _PAGE_BYTES
