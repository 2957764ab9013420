"""Successive steps of one run -> what may be said about their mean, though they depend on one another.

A loader's bursts, a clock that ramps and an epoch's start make neighbours alike, so steps are no independent witnesses.
The means of a few long blocks nearly are: the method of batch means (Law and Kelton, Simulation Modeling and Analysis,
9.5.3; 10 to 30 batches serve best: Schmeiser, Operations Research 30(3), 1982).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hotlap.experiment.statistics import quantile
from hotlap.experiment.table import usual_longest_s
from hotlap.record import Interval

NUM_BATCHES = 16
# A batch of fewer steps would be a step again, and its neighbour like it.
MIN_BATCH = 4
# Of steps too few for two batches, as traces hold them, each is one: the best that can be said of so few.
FEWEST = 3
# What is left of a step must be at least this part of it: a bound of more than 100x says that nothing is known.
_LEAST_LEFT = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A mean, with the standard error of its logarithm."""

    mean_s: float
    log_error: float
    freedom: int
    """Degrees of freedom of the error."""


def level(step_s: Sequence[float]) -> Level | None:
    """The mean step, rare pauses cut down; None with too few steps for an error."""
    steps = np.asarray(step_s, dtype=np.float64)
    if _num_batches(len(steps)) < 2 or not np.all(np.isfinite(steps)) or steps.min() <= 0:
        return None
    # Of so few that each is a batch nobody can tell which is rare.
    if len(steps) >= 2 * MIN_BATCH:
        steps = np.minimum(steps, usual_longest_s(steps))
    mean_s, error_s, freedom = _mean(steps)
    return Level(mean_s=mean_s, log_error=error_s / mean_s, freedom=freedom)


def speedup_without(step_s: Sequence[float], saved_s: Sequence[float]) -> Interval | None:
    """How much faster the steps would be without `saved_s` of each; None where that cannot be said.

    The interval covers what varies within the run.
    """
    num_batches = _num_batches(len(step_s))
    if num_batches < 2 or len(saved_s) != len(step_s):
        return None
    steps, saved = np.asarray(step_s, dtype=np.float64), np.asarray(saved_s, dtype=np.float64)
    if not (np.all(np.isfinite(steps)) and np.all(np.isfinite(saved))):
        return None
    total, left = float(steps.sum()), float((steps - saved).sum())
    if left < _LEAST_LEFT * total or total <= 0:
        return None
    shares = [
        float(part.sum() / whole.sum())
        for part, whole in zip(np.array_split(saved, num_batches), np.array_split(steps, num_batches), strict=True)
    ]
    reach = quantile(num_batches - 1, 0.975) * float(np.std(shares, ddof=1)) / math.sqrt(num_batches)
    share = 1 - left / total
    low, high = max(0.0, share - reach), min(1 - _LEAST_LEFT, share + reach)
    return Interval(low=1 / (1 - low), mid=1 / (1 - share), high=1 / (1 - high))


def ratio(base: Level, other: Level, *, between: tuple[float, int] | None = None) -> Interval:
    """Mean of `other` over mean of `base`, with its 95% interval (Welch).

    `between`: variance of the log-ratio of one run and the next, which no single run can show, and its degrees of
    freedom; None where it is not known, and the interval then covers what varies within the two runs only.
    """
    parts = [(base.log_error**2, base.freedom), (other.log_error**2, other.freedom)]
    if between is not None:
        parts.append(between)
    variance = sum(part for part, _ in parts)
    fourth = sum(part**2 / max(freedom, 1) for part, freedom in parts)
    freedom = variance**2 / fourth if fourth > 0 else math.inf
    reach = quantile(min(max(freedom, 1.0), 1e6), 0.975) * math.sqrt(variance)
    center = math.log(other.mean_s / base.mean_s)
    low, mid, high = (math.exp(min(max(x, -700.0), 700.0)) for x in (center - reach, center, center + reach))
    return Interval(low=low, mid=mid, high=high)


def difference(base_s: Sequence[float], other_s: Sequence[float]) -> Interval | None:
    """Mean of `other_s` less mean of `base_s`, with its 95% interval within the two runs; None with too few steps."""
    if min(_num_batches(len(values)) for values in (base_s, other_s)) < 2:
        return None
    base, other = (_mean(np.asarray(values, dtype=np.float64)) for values in (base_s, other_s))
    center, error = other[0] - base[0], math.hypot(base[1], other[1])
    # No fewer degrees of freedom than the smaller run has: less sharp than Welch, and never too narrow.
    reach = quantile(min(base[2], other[2]), 0.975) * error
    return Interval(low=center - reach, mid=center, high=center + reach)


def _mean(values: NDArray[np.float64]) -> tuple[float, float, int]:
    """Mean of enough values for two batches, its standard error, and the degrees of freedom of that."""
    num_batches = _num_batches(len(values))
    means = [float(part.mean()) for part in np.array_split(values, num_batches)]
    return float(np.mean(means)), float(np.std(means, ddof=1)) / math.sqrt(num_batches), num_batches - 1


def _num_batches(num_steps: int) -> int:
    if num_steps < 2 * MIN_BATCH:
        return num_steps if num_steps >= FEWEST else 0
    return min(NUM_BATCHES, num_steps // MIN_BATCH)
