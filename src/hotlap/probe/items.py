"""Some items of a data set, each computed twice: are they equal, without a random draw, and what do they take?"""

import sys
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

import torch

from hotlap.data.checks.random_state import num_system_draws
from hotlap.probe.digests import Digest, leaves, rng_digest

# So many items, for so long at most.
_SAMPLE_ITEMS = 12
_SAMPLE_S = 2.0


UNSEEN: dict[str, Any] = dict.fromkeys(("deterministic", "why_not", "item_s", "item_bytes"))
"""Fields of `LoaderFacts`, where nothing was sampled."""


def sample_items(dataset: Any, num_items: int) -> dict[str, Any]:
    """Compute some items twice: equal, and without a draw? As `LoaderFacts` has it."""
    seconds: list[float] = []
    sizes: list[int] = []
    begin = time.perf_counter()
    reason = None
    for k in range(min(_SAMPLE_ITEMS, num_items)):
        index = k * num_items // min(_SAMPLE_ITEMS, num_items)
        try:
            reason = _compare_item(dataset, index, seconds, sizes)
        except Exception as error:  # the user's code; it is the script's affair when it meets it
            return {**UNSEEN, "why_not": f"item {index} could not be computed alone: {error!r}"[:200]}
        if reason is not None or time.perf_counter() - begin > _SAMPLE_S:
            break
    return {
        "deterministic": reason is None,
        "why_not": reason,
        "item_s": median(seconds) if seconds else None,
        "item_bytes": round(sum(sizes) / len(sizes)) if sizes else None,
    }


def _compare_item(dataset: Any, index: int, seconds: list[float], sizes: list[int]) -> str | None:
    before = rng_digest(), num_system_draws()
    start = time.perf_counter()
    first = dataset[index]
    seconds.append(time.perf_counter() - start)
    if (rng_digest(), num_system_draws()) != before:
        return f"item {index} draws from a random generator"
    second = dataset[index]
    digests = []
    for item in (first, second):
        digest = Digest()
        digest.add(_comparable(item))
        digests.append(digest.take())
    sizes.append(sum(_size(leaf) for leaf in leaves(first)))
    return None if digests[0] == digests[1] else f"item {index} came out different the second time"


def _comparable(item: Any) -> Any:
    """Arrays and images as tensors, so that their bytes are compared and not their names."""
    if hasattr(item, "__array__") and not isinstance(item, torch.Tensor):
        import numpy as np

        array = np.ascontiguousarray(item)
        return torch.from_numpy(array) if array.dtype.kind in "biufc" and array.flags.writeable else array.tobytes()
    if isinstance(item, Mapping):
        return {key: _comparable(value) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return [_comparable(value) for value in item]
    return item


def _size(leaf: Any) -> int:
    if isinstance(leaf, torch.Tensor):
        return leaf.numel() * leaf.element_size()
    return int(getattr(leaf, "nbytes", 0)) or sys.getsizeof(leaf)
