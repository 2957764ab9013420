"""How long and how often things are measured, and the repeats themselves."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Effort for one figure."""

    repeats: int
    """At least; each gives one number."""
    repeat_s: float
    """Work is repeated within a repeat until it takes so long: the clock and a pause must not matter."""
    copy_bytes: int
    """Size of the arrays that must not fit into a cache, at least."""
    caches: int
    """How many times the last cache such an array must be."""
    disk_bytes: int
    side: int
    """Of the matrices that the CPU multiplies: large enough that starting an operator does not matter."""


# An odd number of repeats, so that the median is one of them. 7 bracket it with 98%, 11 with 98.8% within the second
# smallest and the second largest.
THOROUGH = Pace(repeats=11, repeat_s=0.025, copy_bytes=128 << 20, caches=4, disk_bytes=256 << 20, side=1024)
TRIAL = Pace(repeats=3, repeat_s=0.0, copy_bytes=0, caches=0, disk_bytes=0, side=0)
"""To see whether something is bearable at all."""
QUICK = Pace(repeats=7, repeat_s=0.005, copy_bytes=64 << 20, caches=2, disk_bytes=16 << 20, side=512)

# Work that takes longer than this in one go is repeated as often as `LONG_REPEATS` says, whatever the pace.
_LONG_S = 0.25
_LONG_REPEATS = 7


def times(work: Callable[[], object], pace: Pace) -> list[float]:
    """Seconds of one `work()`, once for each repeat; it is run once before, unseen."""
    work()
    once_s = _once(work)
    count = max(1, round(pace.repeat_s / max(once_s, 1e-9)))
    repeats = min(pace.repeats, _LONG_REPEATS) if once_s > _LONG_S else pace.repeats
    found = []
    for _ in range(repeats):
        begun = time.perf_counter()
        for _ in range(count):
            work()
        found.append((time.perf_counter() - begun) / count)
    return found


def _once(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
