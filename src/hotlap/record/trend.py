"""Do successive steps take longer and longer?"""

from collections.abc import Sequence
from itertools import pairwise

from hotlap.record.moments import median
from hotlap.record.run import Run

NUM_EIGHTHS = 8

# Ours. Of eighths without order six rises of seven, or more, come in 1 of 160 cases, so one odd stretch is no growth.
_MIN_RISES = 6
_MIN_GROWTH = 1.1


def eighths(values: Sequence[float]) -> list[float]:
    """Medians of the first eighth, the second, and so on; of as many values at least."""
    length = len(values) / NUM_EIGHTHS
    return [median(values[round(k * length) : round((k + 1) * length)]) for k in range(NUM_EIGHTHS)]


def growth(run: Run, seconds: Sequence[float]) -> tuple[float, float] | None:
    """Of what successive steps of a run took, medians of the first and of the last eighth; None where these grow by
    less than a tenth, or not all along.

    Nor is it told of a run that was followed to its end, of whose steps a sample is kept, and where others took the
    cores meanwhile: that may have become more.
    """
    disturbed = run.cpu is not None and run.cpu.disturbed
    if run.long is not None or disturbed or len(seconds) < NUM_EIGHTHS * 3:
        return None
    levels = eighths(seconds)
    rises = sum(after > before for before, after in pairwise(levels))
    return (levels[0], levels[-1]) if rises >= _MIN_RISES and levels[-1] >= _MIN_GROWTH * levels[0] else None
