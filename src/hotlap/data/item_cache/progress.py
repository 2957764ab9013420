"""Which items are kept, and why none may be: in memory that forked processes share."""

import mmap
import struct
from typing import Any, final

import numpy as np

_LENGTH = struct.Struct("<H")
_TEXT_BYTES = 1024


@final
class Progress:
    """Of N items. Made before processes fork; each of them may write."""

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
