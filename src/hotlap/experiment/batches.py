"""Successive steps of one run -> what may be said about their mean, though they depend on one another.

A loader's bursts, a clock that ramps and an epoch's start make neighbours alike, so steps are no independent witnesses.
The means of a few long blocks nearly are: the method of batch means (Law and Kelton, Simulation Modeling and Analysis,
9.5.3; 10 to 30 batches serve best: Schmeiser, Operations Research 30(3), 1982).
"""

import math
from collections.abc import Sequence

import numpy as np

from hotlap.record import Ceiling, Interval, Run
from hotlap.student import quantile

NUM_BATCHES = 16
# A batch of fewer steps would be a step again, and its neighbour like it.
MIN_BATCH = 4
# Of steps too few for two batches, as traces hold them, each is one: the best that can be said of so few.
FEWEST = 3
# What is left of a step must be at least this part of it: a bound of more than 100x says that nothing is known.
_LEAST_LEFT = 0.01


def ceiling(run: Run, name: str, idealised: str, saved_s: Sequence[float]) -> Ceiling | None:
    """The step without `saved_s` of each; None where that cannot be said."""
    speedup = speedup_without(run.step_s, saved_s)
    if speedup is None:
        return None
    return Ceiling(name=name, idealised=idealised, step_s=run.mean_step_s() / speedup.mid, speedup=speedup)


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
    total = float(steps.sum())
    if total <= 0:
        return None
    shares = [
        float(part.sum() / whole.sum())
        for part, whole in zip(np.array_split(saved, num_batches), np.array_split(steps, num_batches), strict=True)
    ]
    reach = quantile(num_batches - 1, 0.975) * float(np.std(shares, ddof=1)) / math.sqrt(num_batches)
    share = float(saved.sum()) / total
    if share + reach > 1 - _LEAST_LEFT:
        return None
    return Interval(low=1 / (1 - max(0.0, share - reach)), mid=1 / (1 - share), high=1 / (1 - share - reach))


def _num_batches(num_steps: int) -> int:
    if num_steps < 2 * MIN_BATCH:
        return num_steps if num_steps >= FEWEST else 0
    return min(NUM_BATCHES, num_steps // MIN_BATCH)
