"""How a loader asks for items: indices that a sampler gives -> positions, or items."""

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, cast

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


def plain_positions(indices: Sequence[Any], length: int) -> torch.Tensor | None:
    """As `positions`, of indices that are all numbers of Python's own."""
    return positions(indices, {int}, length) if set(map(type, indices)) == {int} else None


def fetches_whole_batches(dataset: Any) -> bool:
    """True if the data set has a way of its own to fetch a batch, whose items might depend on one another."""
    if type(dataset) is torch.utils.data.Subset:
        return fetches_whole_batches(dataset.dataset)
    return bool(getattr(dataset, "__getitems__", None))


def fetch(dataset: Any, indices: Any) -> Any:
    """The items as a DataLoader fetches them: `torch.utils.data._utils.fetch._MapDatasetFetcher`."""
    whole = getattr(dataset, "__getitems__", None)
    if whole:
        return whole(indices)
    return [dataset[index] for index in cast(Iterable[Any], indices)]
