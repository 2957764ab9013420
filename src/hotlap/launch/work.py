"""How much each process was given to compute in each step, and how long it computed -> what unequal work costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from hotlap.record import UnequalWork

# Steps on each side without which a slope is chance.
_FEWEST = 3

# Seconds may grow with the square of the work (attention), so the slope is at most twice that through the origin.
_STEEPEST = 2.0


@dataclass(frozen=True, slots=True)
class Step:
    """One step of one process."""

    work: float
    """Elements given to the model."""
    compute_s: float


def unequal_work(steps: Mapping[int, Sequence[Step]]) -> UnequalWork | None:
    """Rank -> the same steps of each. None where nothing was counted, or all got the same in every step.

    Seconds of a unit of work: the medians of steps with much and with little, split in the middle between the largest
    and the smallest, so that neither a stall nor another process on the machine tilts them.
    """
    every = [step for mine in steps.values() for step in mine]
    rows = list(zip(*steps.values(), strict=True))
    if len(steps) < 2 or not rows or not all(step.work for step in every):
        return None
    if all(step.work == row[0].work for row in rows for step in row):
        return None
    middle = (max(step.work for step in every) + min(step.work for step in every)) / 2
    much, little = [s for s in every if s.work > middle], [s for s in every if s.work <= middle]
    if min(len(much), len(little)) < _FEWEST:
        return None
    slope_s = (_compute_s(much) - _compute_s(little)) / (_work(much) - _work(little))
    unit_s = min(max(0.0, slope_s), _STEEPEST * _compute_s(every) / _work(every))
    means = [fmean(step.work for step in row) for row in rows]
    return UnequalWork(
        cost_s=unit_s * fmean(max(step.work for step in row) - mean for row, mean in zip(rows, means, strict=True)),
        most=fmean(max(step.work for step in row) / mean for row, mean in zip(rows, means, strict=True)),
        work={rank: fmean(step.work for step in mine) for rank, mine in steps.items()},
        extra_s={
            rank: unit_s * median(step.work - mean for step, mean in zip(mine, means, strict=True))
            for rank, mine in steps.items()
        },
    )


def _compute_s(steps: Sequence[Step]) -> float:
    return median(step.compute_s for step in steps)


def _work(steps: Sequence[Step]) -> float:
    return median(step.work for step in steps)
