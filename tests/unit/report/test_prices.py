"""The picture of time against price."""

import re

from hotlap.record import Interval
from hotlap.report.devices import prices

STEP = Interval(low=0.09, mid=0.1, high=0.12)


def labels(svg: str) -> dict[str, tuple[float, float, str]]:
    found = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)">([^<]+)</text>', svg)
    return {name: (float(x), float(y), anchor) for x, y, anchor, name in found}


def places(svg: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)]


def test_the_lower_left_is_sooner_and_for_less() -> None:
    slow = Interval(low=0.3, mid=0.4, high=0.5)
    svg = prices([("slow and dear", slow, 1.0, 9.0), ("fast", STEP, 1.0, 1.0), ("no price", STEP, 1.0, None)])
    (x_slow, y_slow), (x_fast, y_fast) = places(svg)
    assert x_fast < x_slow
    assert y_fast > y_slow  # down
    assert "no price" not in svg


def test_a_step_of_twice_the_batch_costs_what_half_of_it_does() -> None:
    two, one = places(prices([("two", STEP, 2.0, 4.0), ("one", STEP, 1.0, 1.0)]))[::-1]
    assert two[1] > one[1]


def test_names_of_points_that_meet_do_not_overlap() -> None:
    found = labels(prices([(name, STEP, 1.0, 2.0) for name in ("first", "second", "third")]))
    (x1, y1, a1), (x2, y2, a2), (_, y3, _) = (found[name] for name in ("first", "second", "third"))
    assert (a1, a2) == ("start", "end") and x2 < x1
    assert y1 == y2
    assert y3 >= y1 + 14


def test_without_prices_there_is_no_picture_and_names_are_escaped() -> None:
    assert prices([("A", STEP, 1.0, None)]) == ""
    assert "<b>" not in prices([("<b>\x1b", STEP, 1.0, 1.0)])


def test_small_prices_are_written_out() -> None:
    svg = prices([("T4", Interval(low=5e-4, mid=7e-4, high=1e-3), 1.0, 0.4)])
    assert ">0.0001</text>" in svg and "e-0" not in svg
