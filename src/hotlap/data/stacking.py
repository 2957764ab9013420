"""`windows(values, starts, first, stop)`: pieces of one long tensor or array, stacked by one gather."""

from typing import Any

import numpy as np
import torch


def windows(values: Any, starts: Any, first: int, stop: int, *, astype: Any = None) -> torch.Tensor:
    """`torch.stack([values[i + first : i + stop] for i in starts])`, without a slice for each piece.

    `x, y = windows(text, ix, 0, length), windows(text, ix, 1, length + 1)` is a language model's batch. The values,
    their type and their layout are those of the stacked slices. Where that cannot be promised (pieces that reach over
    an end, other types than tensors, arrays and int64 starts, a tensor that wants a gradient) the slices are stacked,
    so that an error is the one that it would be, too.

    Arguments:
        values: (N, ...) a tensor, or with `astype` an array, mapped into memory perhaps.
        starts: (B,) where each piece begins; on the CPU, or where `values` is.
        first, stop: from where to where a piece goes, from its start on.
        astype: for arrays: `torch.stack([torch.from_numpy(values[i + first : i + stop].astype(astype)) for ...])`.

    Returns:
        (B, stop - first, ...) in memory of its own.
    """
    if _inside(values, starts, first, stop):
        if astype is None and type(values) is torch.Tensor and not values.requires_grad:
            return _of_tensor(values, starts, first, stop - first)
        if astype is not None and type(values) in (np.ndarray, np.memmap) and starts.device.type == "cpu":
            pieces = np.lib.stride_tricks.sliding_window_view(values, stop - first, axis=0)
            return torch.from_numpy(_in_order(pieces[(starts + first).numpy()].astype(astype)))
    if astype is None:
        return torch.stack([values[i + first : i + stop] for i in starts])
    return torch.stack([torch.from_numpy(values[i + first : i + stop].astype(astype)) for i in starts])


def _inside(values: Any, starts: Any, first: Any, stop: Any) -> bool:
    """True for pieces of one length that lie within the values."""
    if type(starts) is not torch.Tensor or starts.dtype != torch.int64 or starts.dim() != 1 or not len(starts):
        return False  # smaller integers would wrap around in `i + stop`
    if type(first) is not int or type(stop) is not int or first >= stop or not getattr(values, "ndim", 0):
        return False
    least, most = torch.aminmax(starts)
    return int(least) + first >= 0 and int(most) + stop <= len(values)


def _of_tensor(values: torch.Tensor, starts: torch.Tensor, first: int, length: int) -> torch.Tensor:
    pieces = values.unfold(0, length, 1)  # (N - L + 1, ..., L), a view
    found = pieces[(starts + first).to(values.device)]
    return found if values.dim() == 1 else found.movedim(-1, 1).contiguous()


def _in_order(pieces: Any) -> Any:
    """(B, ..., L) -> (B, L, ...)"""
    return pieces if pieces.ndim == 2 else np.ascontiguousarray(np.moveaxis(pieces, -1, 1))
