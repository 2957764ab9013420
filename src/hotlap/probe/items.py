"""Some items of a data set, each computed twice: are they equal, without a random draw, and what do they take?"""

import sys
import time
from typing import Any

import numpy as np
import torch

from hotlap.data.checks.random_state import num_system_draws
from hotlap.probe.digests import digest_of, leaves, rng_digest
from hotlap.record.moments import median

# So many items, for so long at most.
_SAMPLE_ITEMS = 12
_SAMPLE_S = 2.0


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
            return {"why_not": f"item {index} could not be computed alone: {error!r}"[:200]}
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
    digests = [[digest_of(_as_array(leaf)) for leaf in leaves(item)] for item in (first, second)]
    sizes.append(sum(_size(leaf) for leaf in leaves(first)))
    return None if digests[0] == digests[1] else f"item {index} came out different the second time"


def _as_array(leaf: Any) -> Any:
    """An image, and an array of objects, as the bytes that it holds; else it would be compared by its class."""
    if not hasattr(leaf, "__array__") or isinstance(leaf, torch.Tensor):
        return leaf
    array = np.asarray(leaf)
    return array.tobytes() if array.dtype.hasobject else array


def _size(leaf: Any) -> int:
    if isinstance(leaf, torch.Tensor):
        return leaf.numel() * leaf.element_size()
    return int(getattr(leaf, "nbytes", 0)) or sys.getsizeof(leaf)
