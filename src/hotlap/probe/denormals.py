"""Numbers that are too small for the fast path of some processors: how many there are, and are they slow here?"""

from collections.abc import Iterable
from functools import cache
from time import perf_counter

import torch

# Tens of times slower where they are slow at all.
_SLOWER = 3.0


def part_of(tensors: Iterable[torch.Tensor]) -> float | None:
    """Part of the elements that are denormal, in [0, 1]; None without one on the CPU."""
    here = [t for t in tensors if t.is_floating_point() and t.device.type == "cpu" and t.layout == torch.strided]
    total = sum(t.numel() for t in here)
    if not total:
        return None
    found = sum(int(((t != 0) & (t.abs() < torch.finfo(t.dtype).smallest_normal)).sum()) for t in here)
    return found / total


@cache
def are_slow() -> bool:
    """Whether this processor multiplies them more slowly than others: an AMD EPYC of family 26 does not, nor any that
    is set to flush them."""
    usual_s, seconds = (min(_product_s(value) for _ in range(9)) for value in (1.0, 1e-40))
    return seconds > _SLOWER * usual_s


def _product_s(value: float) -> float:
    numbers = torch.full((10_000,), value, dtype=torch.float32, device="cpu")
    begun = perf_counter()
    numbers.mul_(0.9)
    return perf_counter() - begun
