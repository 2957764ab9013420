"""Repeats of one measurement -> a figure: median, its interval, and how far the repeats lie apart. Pure."""

import math
from collections.abc import Sequence
from statistics import NormalDist, median, quantiles

from hotlap.record import Figure, Interval, Unit

# Of the interval.
_CONFIDENCE = 0.95
# Beyond this many values ranks come from the normal distribution (a binomial coefficient of 1,030 overflows).
_MANY = 500

LEAST_REPEATS = 6
"""Fewer, and even the smallest and the largest do not bracket the median with 95% (1 - 2 / 2**n)."""


def median_interval(values: Sequence[float]) -> Interval:
    """The median, and its 95% interval by order statistics: right for any distribution of independent values.

    With fewer than `LEAST_REPEATS` values the interval is all that was seen, and covers less.
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


def spread(values: Sequence[float]) -> float:
    """Half of the distance between the quartiles, as a part of the median; 0 for one value."""
    if len(values) < 2:
        return 0.0
    low, mid, high = quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / mid if mid else 0.0


def rate(
    name: str,
    amount: float,
    times_s: Sequence[float],
    *,
    unit: Unit,
    device: str = "cpu",
    variant: str = "",
    threads: int | None = None,
    how: str = "",
) -> Figure:
    """A rate: `amount` (operations, bytes) in each of `times_s`."""
    times = median_interval(times_s)
    return Figure(
        name=name,
        device=device,
        variant=variant,
        unit=unit,
        value=Interval(low=amount / times.high, mid=amount / times.mid, high=amount / times.low),
        spread=spread(times_s),
        num_repeats=len(times_s),
        threads=threads,
        how=how,
    )


def duration(
    name: str,
    times_s: Sequence[float],
    *,
    device: str = "cpu",
    variant: str = "",
    threads: int | None = None,
    how: str = "",
) -> Figure:
    """A time."""
    return Figure(
        name=name,
        device=device,
        variant=variant,
        unit=Unit.SECOND,
        value=median_interval(times_s),
        spread=spread(times_s),
        num_repeats=len(times_s),
        threads=threads,
        how=how,
    )


def find(figures: Sequence[Figure], name: str, *, device: str, variant: str | None = None) -> Figure | None:
    """The best figure of this name on `device`: highest rate, or shortest time."""
    fits = [
        figure
        for figure in figures
        if figure.name == name and figure.device == device and variant in (None, figure.variant)
    ]
    return max(
        fits,
        key=lambda figure: -figure.value.mid if figure.unit is Unit.SECOND else figure.value.mid,
        default=None,
    )
