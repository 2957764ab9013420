"""Indices that a sampler gives -> positions in a store."""

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


def is_index_tensor(index: Any) -> bool:
    """True for what `for index in torch.randperm(n)` gives; one of a single element in a row means a batch of one."""
    return type(index) is torch.Tensor and index.ndim == 0 and index.dtype == torch.int64


def positions(indices: Sequence[Any], types: set[type], length: int) -> torch.Tensor | None:
    """Indices of these types as one tensor; None if one of them is no plain position in [0, length)."""
    if torch.Tensor in types and not all(is_index_tensor(index) for index in indices if type(index) is torch.Tensor):
        return None
    # 4 times as fast as torch.tensor(list): 7 us against 29 us for 64 of them.
    found = np.frombuffer(array("q", indices), dtype=np.int64)
    if found.min() < 0 or found.max() >= length:
        return None
    return torch.from_numpy(found)
