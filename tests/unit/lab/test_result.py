"""Quantities, crossings, and how they read."""

import math

import pytest

from hotlap.errors import UserError
from hotlap.lab import EXPERIMENTS, by_name, words
from hotlap.lab.result import Quantity, Unit, count, crossing, ratio, seconds


def test_lines_cross_where_their_ratio_is_one() -> None:
    x = [10.0, 100.0, 1000.0]
    flat, rising = [1.0, 1.0, 1.0], [0.1, 1.0, 10.0]
    assert crossing(x, rising, flat) == pytest.approx(100.0)


def test_a_crossing_between_two_sizes_follows_the_power_law() -> None:
    # x**2 / 1e3 meets 1 at the root of 1000.
    x = [1.0, 10.0, 100.0]
    assert crossing(x, [a * a / 1e3 for a in x], [1.0] * 3) == pytest.approx(math.sqrt(1e3))


def test_what_never_overtakes_has_no_crossing() -> None:
    assert crossing([1.0, 2.0], [1.0, 1.0], [2.0, 3.0]) is None


def test_what_is_always_ahead_crosses_at_the_first_size() -> None:
    assert crossing([4.0, 8.0], [2.0, 2.0], [1.0, 1.0]) == 4.0


def test_a_lead_that_is_lost_again_does_not_count() -> None:
    assert crossing([1.0, 2.0, 3.0, 4.0], [1.0] * 4, [0.5, 2.0, 2.0, 0.5]) == pytest.approx(12**0.5, rel=0.01)


def test_the_interval_of_a_speed_up_is_turned_around() -> None:
    there = Quantity(value=2.0, unit=Unit.SECOND, low=1.0, high=4.0, predicted=True)
    gain = there.into(8.0)
    assert (gain.value, gain.low, gain.high) == (4.0, 2.0, 8.0)
    assert gain.unit is Unit.RATIO
    assert gain.predicted


def test_many_steps_keep_their_interval_and_their_mark() -> None:
    many = Quantity(value=2.0, unit=Unit.SECOND, low=1.0, high=4.0, predicted=True).times(10)
    assert (many.value, many.low, many.high, many.predicted) == (20.0, 10.0, 40.0, True)


def test_what_was_predicted_is_marked_wherever_it_is_read() -> None:
    there = Quantity(value=1e-5, unit=Unit.SECOND, low=5e-6, high=2e-5, predicted=True)
    assert words.quantity(there) == "~10.0 us (5.00 us to 20.0 us)"
    assert words.any_predicted([("a", None), (seconds(1.0), there)])
    assert not words.any_predicted([("a", None), (seconds(1.0), ratio(2.0))])


def test_cells_read_in_their_unit() -> None:
    assert words.cell(None) == "-"
    assert words.cell("as it is") == "as it is"
    assert words.cell(count(60_000)) == "60,000"
    assert words.cell(ratio(2.5)) == "2.50x"
    assert words.cell(Quantity(value=0.4, unit=Unit.SHARE)) == "40%"
    assert words.cell(Quantity(value=1 << 20, unit=Unit.BYTE)) == "1.00 MiB"
    assert words.cell(seconds(math.nan)) == "unknown"


def test_slower_is_said_as_slower() -> None:
    assert words.times_as(2.0) == "2.00x as fast"
    assert words.times_as(0.5) == "2.00x slower"


def test_an_unknown_experiment_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"no experiment 'warp'.*transfer, launch-floor, pinning"):
        by_name("warp")


def test_each_experiment_is_a_file_of_its_name() -> None:
    from importlib import import_module

    for one in EXPERIMENTS:
        assert callable(import_module(f"hotlap.lab.{one.name.replace('-', '_')}").run)
