"""How long and how often work is timed: by torch's own timer, which waits for a GPU at both ends."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils.benchmark import Timer

Work = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Effort for one figure."""

    repeats: int
    """Each gives one number. Odd, so that the median is one of them."""
    repeat_s: float
    """Work is done in a row within a repeat until it takes so long: the clock and a pause must not matter."""
    array_bytes: int
    """Size of the arrays that must not fit into a cache."""


# 7 repeats bracket the median with 98%, 11 with 98.8% within the second smallest and the second largest. Arrays are
# larger than four times the last cache of most processors; GPUs have 256 MB at most (MI300X).
THOROUGH = Pace(repeats=11, repeat_s=0.025, array_bytes=256 << 20)
QUICK = Pace(repeats=7, repeat_s=0.005, array_bytes=128 << 20)


def times(work: Work, pace: Pace) -> list[float]:
    """Seconds of one `work()`, once for each repeat."""
    for _ in range(3):  # the first calls choose kernels and raise the clocks
        taken_s = once_s(work)
    count = max(1, round(pace.repeat_s / max(taken_s, 1e-7)))
    return [once_s(work, count) for _ in range(pace.repeats)]


def once_s(work: Work, count: int = 1) -> float:
    """Seconds of one `work()`, mean of `count` in a row, from an idle device to an idle device."""
    timer = Timer("work()", globals={"work": work}, num_threads=torch.get_num_threads())
    return float(timer.timeit(count).mean)
