"""What one run's steps, which depend on one another, say of their mean and of what a share of them costs."""

import math
import random

import pytest

from hotlap.experiment import batches

TRIALS = 400


def steps(draw: random.Random, *, count: int = 200, memory: float) -> list[float]:
    """An autoregressive series around 10 ms: each step resembles the one before."""
    level, found = 0.0, []
    for _ in range(count):
        level = memory * level + math.sqrt(1 - memory**2) * draw.gauss(0, 0.1)
        found.append(0.01 * (1 + level))
    return found


@pytest.mark.parametrize("memory", [0.0, 0.5])
def test_a_bound_covers_the_share_of_a_step_whether_or_not_steps_resemble_their_neighbours(memory: float) -> None:
    draw = random.Random(1)
    missed = 0
    for _ in range(TRIALS):
        # Half of a step on average, and what varies belongs to what is saved.
        saved = steps(draw, memory=memory)
        bound = batches.speedup_without([0.01 + x for x in saved], saved)
        assert bound is not None
        missed += not bound.low <= 2 <= bound.high
    # 95% is promised; binomial noise of 400 trials and what is left of the dependence are allowed for.
    assert missed / TRIALS < 0.09


def test_naive_intervals_would_not_do() -> None:
    # The same series taken as independent steps misses far more often: this is what batches are for.
    draw = random.Random(1)
    missed = 0
    for _ in range(TRIALS):
        series = steps(draw, memory=0.5)
        mean = sum(series) / len(series)
        error = math.sqrt(sum((x - mean) ** 2 for x in series) / (len(series) - 1) / len(series))
        missed += abs(mean - 0.01) > 1.96 * error
    assert missed / TRIALS > 0.15


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_bound_is_what_the_share_says(share: float) -> None:
    draw = random.Random(4)
    series = steps(draw, memory=0.3)
    bound = batches.speedup_without(series, [share * step * draw.uniform(0.9, 1.1) for step in series])
    assert bound is not None
    assert bound.low <= bound.mid <= bound.high
    assert bound.mid == pytest.approx(1 / (1 - share), rel=0.1)


def test_nothing_is_said_of_too_few_steps_or_of_a_step_that_is_all_saved() -> None:
    assert batches.speedup_without([0.1] * 2, [0.05] * 2) is None
    assert batches.speedup_without([0.1] * 40, [0.1] * 40) is None


def test_few_steps_as_a_trace_holds_them_are_a_batch_each() -> None:
    bound = batches.speedup_without([0.1, 0.12, 0.11], [0.05, 0.06, 0.05])
    assert bound is not None
    assert bound.low < bound.mid < bound.high
