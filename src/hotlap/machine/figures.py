"""Repeats of one measurement -> a figure: median, its interval, and how far the repeats lie apart. Pure."""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median, quantiles

from hotlap.record import Figure, Interval, Unit

# What each end of the interval misses the median by chance.
_MISSED = 0.025


def median_interval(values: Sequence[float]) -> Interval:
    """The median, and its 95% interval by order statistics: right for any distribution of independent values.

    With fewer than 6 values the interval is all that was seen, and covers less (1 - 2 / 2**n).
    """
    from scipy.special import bdtrik  # only where something was measured

    ordered = sorted(values)
    n = len(ordered)
    if n == 0:
        raise ValueError("a median needs a value")
    k = max(1, math.ceil(bdtrik(_MISSED, n, 0.5)))
    return Interval(low=ordered[k - 1], mid=median(ordered), high=ordered[n - k])


def duration(name: str, times_s: Sequence[float], *, device: str) -> Figure:
    """A time."""
    low, mid, high = quantiles(times_s, n=4, method="inclusive")
    return Figure(
        name=name,
        device=device,
        unit=Unit.SECOND,
        value=median_interval(times_s),
        spread=(high - low) / 2 / mid,
    )


def rate(
    name: str,
    amount: float,
    times_s: Sequence[float],
    *,
    unit: Unit,
    device: str,
    variant: str = "",
    threads: int | None = None,
) -> Figure:
    """A rate: `amount` (operations, bytes) in each of `times_s`."""
    taken = duration(name, times_s, device=device)
    low, mid, high = (amount / taken.value.high, amount / taken.value.mid, amount / taken.value.low)
    return replace(taken, value=Interval(low=low, mid=mid, high=high), unit=unit, variant=variant, threads=threads)
