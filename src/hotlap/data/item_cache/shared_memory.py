"""Memory for columns, which other processes and a file can share; and what is noted there of the items in them.

Private memory of this process cannot be filled by forked ones, and is gone when the process is.
"""

import mmap
import struct
from math import prod
from typing import Any, final

import numpy as np
import torch

# Each column begins on a page of its own.
_PAGE_BYTES = 4096

_LENGTH = struct.Struct("<H")
_TEXT_BYTES = 1024


@final
class SharedBlock:
    """Pages for some tensors that forked processes share: anonymous ones, or those of a file that is as long."""

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
        self._used_bytes += whole_pages(numel * tensor.element_size())
        whole: torch.Tensor = tensor.view(shape)
        return whole


def shared_tensor(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A tensor on pages of its own that forked processes share."""
    return SharedBlock(prod(shape) * dtype.itemsize).allocate(shape, dtype)


def whole_pages(num_bytes: int) -> int:
    """Bytes of the pages that so many bytes lie on."""
    return rounded_up(num_bytes, _PAGE_BYTES)


def rounded_up(num_bytes: int, multiple: int) -> int:
    """The next multiple."""
    return -(-num_bytes // multiple) * multiple


@final
class Progress:
    """Which of N items are kept, and why none may be. Made before processes fork; each of them may write."""

    def __init__(self, num_items: int, *, full: bool = False) -> None:
        self._pages = mmap.mmap(-1, _TEXT_BYTES + max(1, num_items))
        self.present: Any = np.frombuffer(self._pages, np.bool_, num_items, _TEXT_BYTES)
        """(N,) True for an item that is there: set when all of it is written."""
        self.present[:] = full

    @property
    def refusal(self) -> str | None:
        """Why some process found that no item may be handed out; None if none did."""
        (length,) = _LENGTH.unpack_from(self._pages)
        return self._pages[_LENGTH.size : _LENGTH.size + length].decode(errors="replace") if length else None

    def refuse(self, reason: str) -> None:
        """For all processes; the first reason stays."""
        if self.refusal is None:
            text = reason.encode()[: _TEXT_BYTES - _LENGTH.size]
            self._pages[_LENGTH.size : _LENGTH.size + len(text)] = text
            _LENGTH.pack_into(self._pages, 0, len(text))
