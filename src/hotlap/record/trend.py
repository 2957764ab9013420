"""Do successive steps take longer and longer?"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

NUM_EIGHTHS = 8

# Ours. Of eighths without order six rises of seven, or more, come in 1 of 160 cases, so one odd stretch is no growth.
_MIN_RISES = 6
_MIN_GROWTH = 1.1


def eighths(values: Sequence[float]) -> list[float]:
    """Medians of the first eighth, the second, and so on; of as many values at least."""
    length = len(values) / NUM_EIGHTHS
    return [median(values[round(k * length) : round((k + 1) * length)]) for k in range(NUM_EIGHTHS)]


def growth(steps_s: Sequence[float]) -> tuple[float, float] | None:
    """Medians of the first and of the last eighth of successive steps; None where these grow by less than a tenth, or
    not all along."""
    if len(steps_s) < NUM_EIGHTHS * 3:
        return None
    levels = eighths(steps_s)
    rises = sum(after > before for before, after in pairwise(levels))
    return (levels[0], levels[-1]) if rises >= _MIN_RISES and levels[-1] >= _MIN_GROWTH * levels[0] else None
