"""Repeats -> medians with intervals."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.machine import figures
from hotlap.record import Unit


def test_the_interval_of_a_median_covers_it_as_often_as_it_says() -> None:
    generator = random.Random(1)
    for count in (6, 7, 11, 20):
        intervals = [figures.median_interval([generator.expovariate(1) for _ in range(count)]) for _ in range(2000)]
        covered = sum(interval.low <= 0.6931 <= interval.high for interval in intervals) / 2000
        assert 0.94 <= covered <= 0.995, count


def test_thousands_of_repeats_are_ranked_as_hundreds_are() -> None:
    """Exact ranks up to some count, those of a normal distribution beyond: there is no step where they meet."""
    for count in (490, 500, 501, 510, 1_031, 20_000, 1_000_000):
        interval = figures.median_interval(range(count))
        assert interval.low + interval.high == count - 1
        assert (interval.high - interval.low) / 2 == pytest.approx(0.98 * count**0.5, abs=1.5)


def test_few_repeats_give_all_that_was_seen() -> None:
    interval = figures.median_interval([3.0, 1.0, 2.0])
    assert (interval.low, interval.mid, interval.high) == (1.0, 2.0, 3.0)


def test_many_repeats_leave_the_outliers_out() -> None:
    interval = figures.median_interval([1.0] * 10 + [100.0])
    assert interval.high == 1.0


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=40))
def test_a_median_lies_in_its_interval_and_its_interval_in_what_was_seen(values: list[float]) -> None:
    interval = figures.median_interval(values)
    assert min(values) <= interval.low <= interval.mid <= interval.high <= max(values)


def test_a_rate_turns_times_round() -> None:
    found = figures.rate("copy", 10.0, [1.0, 2.0, 4.0], unit=Unit.BYTE_PER_S, device="cpu")
    assert (found.value.low, found.value.mid, found.value.high) == (2.5, 5.0, 10.0)
    assert found.spread == pytest.approx(0.375)
