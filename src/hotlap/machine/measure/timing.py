"""How long and how often work is timed, and the clocks of a processor and of a GPU's stream."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Timer = Callable[[Callable[[], object], int], float]
"""(work, count) -> seconds of one `work()`, mean of `count` in a row."""


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


def times(work: Callable[[], object], pace: Pace, timer: Timer) -> list[float]:
    """Seconds of one `work()`, once for each repeat."""
    for _ in range(3):  # the first calls choose kernels and raise the clocks
        once_s = timer(work, 1)
    count = max(1, round(pace.repeat_s / max(once_s, 1e-7)))
    return [timer(work, count) for _ in range(pace.repeats)]


def by_clock(work: Callable[[], object], count: int) -> float:
    """A processor's."""
    begun = time.perf_counter()
    for _ in range(count):
        work()
    return (time.perf_counter() - begun) / count


def by_waiting(work: Callable[[], object], count: int) -> float:
    """What the host has a part in: by its clock, from an idle GPU to an idle GPU."""
    torch.cuda.synchronize()
    begun = time.perf_counter()
    by_clock(work, count)
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / count


def by_events(work: Callable[[], object], count: int) -> float:
    """Time on the stream."""
    event: Any = torch.cuda.Event
    begin, end = event(enable_timing=True), event(enable_timing=True)
    begin.record()
    for _ in range(count):
        work()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / count
