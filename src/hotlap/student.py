"""Student's t: its quantiles, and what a few numbers say of their mean."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev


def quantile(freedom: float, probability: float) -> float:
    """Of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


def mean_interval(values: Sequence[float]) -> tuple[float, float, float] | None:
    """(low, mean, high): the mean and its 95% interval; None of fewer than two values."""
    if len(values) < 2:
        return None
    mean, reach = fmean(values), quantile(len(values) - 1, 0.975) * stdev(values) / math.sqrt(len(values))
    return mean - reach, mean, mean + reach
