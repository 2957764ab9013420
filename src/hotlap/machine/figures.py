"""Repeats of one measurement -> a figure: median, its interval, and how far the repeats lie apart. Pure."""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist, median, quantiles

from hotlap.record import Figure, Interval, Unit

# Of the interval.
_CONFIDENCE = 0.95
# Beyond this many values ranks come from the normal distribution (a binomial coefficient of 1,030 overflows).
_MANY = 500


def median_interval(values: Sequence[float]) -> Interval:
    """The median, and its 95% interval by order statistics: right for any distribution of independent values.

    With fewer than 6 values the interval is all that was seen, and covers less (1 - 2 / 2**n).
    """
    ordered = sorted(values)
    n = len(ordered)
    if n == 0:
        raise ValueError("a median needs a value")
    k = _rank(n)
    return Interval(low=ordered[k - 1], mid=median(ordered), high=ordered[n - k])


def _rank(n: int) -> int:
    """The greatest k for which the k-th smallest and the k-th largest of `n` bracket the median; at least 1."""
    # They miss it with a chance of 2 P(Binomial(n, 1/2) < k), which is a normal distribution to a rank or so for many.
    if n > _MANY:
        return int((n - NormalDist().inv_cdf((1 + _CONFIDENCE) / 2) * math.sqrt(n)) / 2)
    k, missed = 1, 2.0 * 0.5**n
    while k < n // 2 and missed + 2 * math.comb(n, k) * 0.5**n <= 1 - _CONFIDENCE:
        missed += 2 * math.comb(n, k) * 0.5**n
        k += 1
    return k


def duration(name: str, times_s: Sequence[float], *, device: str, how: str = "") -> Figure:
    """A time."""
    low, mid, high = quantiles(times_s, n=4, method="inclusive")
    return Figure(
        name=name,
        device=device,
        unit=Unit.SECOND,
        value=median_interval(times_s),
        spread=(high - low) / 2 / mid,
        num_repeats=len(times_s),
        how=how,
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
    how: str = "",
) -> Figure:
    """A rate: `amount` (operations, bytes) in each of `times_s`."""
    taken = duration(name, times_s, device=device, how=how)
    low, mid, high = (amount / taken.value.high, amount / taken.value.mid, amount / taken.value.low)
    return replace(taken, value=Interval(low=low, mid=mid, high=high), unit=unit, variant=variant, threads=threads)
