"""Intervals of means of steps that depend on one another hold what they promise."""

import math
import random

import pytest

from hotlap.experiment import batches

TRIALS = 400


def steps(draw: random.Random, *, count: int = 200, memory: float, mean: float = 0.01) -> list[float]:
    """An autoregressive series around `mean`: each step resembles the one before."""
    level, found = 0.0, []
    for _ in range(count):
        level = memory * level + math.sqrt(1 - memory**2) * draw.gauss(0, 0.1)
        found.append(mean * (1 + level))
    return found


@pytest.mark.parametrize("memory", [0.0, 0.5])
def test_the_ratio_of_two_runs_of_one_speed_is_covered(memory: float) -> None:
    draw = random.Random(1)
    missed = 0
    for _ in range(TRIALS):
        one, two = (batches.level(steps(draw, memory=memory)) for _ in range(2))
        assert one is not None
        assert two is not None
        interval = batches.ratio(one, two)
        missed += not interval.low <= 1 <= interval.high
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


def test_what_lies_between_runs_widens_the_interval() -> None:
    draw = random.Random(2)
    one, two = (batches.level(steps(draw, memory=0.0)) for _ in range(2))
    assert one is not None
    assert two is not None
    narrow, wide = batches.ratio(one, two), batches.ratio(one, two, between=(0.05**2, 6))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_a_pause_of_the_system_is_no_slower_script() -> None:
    draw = random.Random(3)
    series = steps(draw, memory=0.0)
    paused = [*series[:-1], 5.0]
    one, two = batches.level(series), batches.level(paused)
    assert one is not None
    assert two is not None
    assert two.mean_s == pytest.approx(one.mean_s, rel=0.01)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_bound_is_what_the_share_says(share: float) -> None:
    draw = random.Random(4)
    series = steps(draw, memory=0.3)
    bound = batches.speedup_without(series, [share * step * draw.uniform(0.9, 1.1) for step in series])
    assert bound is not None
    assert bound.low <= bound.mid <= bound.high
    assert bound.mid == pytest.approx(1 / (1 - share), rel=0.1)


def test_nothing_is_said_of_too_few_steps_or_of_a_step_that_is_all_saved() -> None:
    assert batches.level([0.1] * 2) is None
    assert batches.level([0.1] * 40 + [-1.0]) is None
    assert batches.speedup_without([0.1] * 2, [0.05] * 2) is None
    assert batches.speedup_without([0.1] * 40, [0.1] * 40) is None
    assert batches.difference([0.1] * 2, [0.1] * 40) is None


def test_few_steps_as_a_trace_holds_them_are_a_batch_each() -> None:
    found = batches.level([0.1, 0.12, 0.11])
    assert found is not None
    assert found.freedom == 2
    assert found.mean_s == pytest.approx(0.11)


def test_a_difference_of_phases_is_found_with_its_sign() -> None:
    draw = random.Random(5)
    gap = batches.difference(steps(draw, memory=0.2), steps(draw, memory=0.2, mean=0.012))
    assert gap is not None
    assert gap.low > 0
    assert gap.mid == pytest.approx(0.002, rel=0.2)
