"""Where the lines and bars of a picture end up."""

import math
from dataclasses import replace

import pytest

from hotlap.lab import geometry
from hotlap.lab.result import Bars, Curve, Curves, Quantity, Unit


def curves(*lines: Curve, log: bool = False) -> Curves:
    return Curves(
        title="",
        x_label="",
        x_unit=Unit.COUNT,
        y_label="",
        y_unit=Unit.SECOND,
        curves=lines,
        log_x=log,
        log_y=log,
    )


def points(line: geometry.Line) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for part in line.segments for x, y in [p.split(",") for p in part.split()]]


def test_a_power_law_is_a_straight_line_on_logarithmic_axes() -> None:
    chart = geometry.chart(curves(Curve(name="a", x=(1.0, 10.0, 100.0), y=(1e-6, 1e-4, 1e-2)), log=True))
    assert chart is not None
    (x0, y0), (x1, y1), (x2, y2) = points(chart.lines[0])
    assert (y1 - y0) / (x1 - x0) == pytest.approx((y2 - y1) / (x2 - x1), rel=1e-3)
    assert y2 < y0  # larger values stand higher


def test_everything_lies_within_the_picture() -> None:
    line = Curve(name="a", x=(1.0, 2.0), y=(1.0, 3.0), low=(0.5, 2.0), high=(2.0, 4.0))
    chart = geometry.chart(curves(line))
    assert chart is not None
    assert all(0 <= value <= 100 for pair in points(chart.lines[0]) for value in pair)
    assert all(0 <= float(value) <= 100 for pair in chart.lines[0].band.split() for value in pair.split(","))


def test_what_is_not_finite_is_a_gap() -> None:
    line = Curve(name="a", x=(1.0, 2.0, 3.0, 4.0, 5.0), y=(1.0, 2.0, math.nan, 4.0, None))
    chart = geometry.chart(curves(line))
    assert chart is not None
    assert len(chart.lines[0].segments) == 2
    assert len(chart.lines[0].dots) == 3


def test_zero_has_no_place_on_a_logarithmic_axis() -> None:
    chart = geometry.chart(curves(Curve(name="a", x=(1.0, 2.0), y=(0.0, 1.0)), log=True))
    assert chart is not None
    assert len(chart.lines[0].dots) == 1


@pytest.mark.parametrize("values", [(), (math.nan,), (math.inf, -math.inf)])
def test_a_picture_of_nothing_is_none(values: tuple[float, ...]) -> None:
    line = Curve(name="a", x=tuple(float(k) for k in range(len(values))), y=values)
    assert geometry.chart(curves(line)) is None


def test_equal_values_can_be_drawn() -> None:
    for log in (False, True):
        chart = geometry.chart(curves(Curve(name="a", x=(1.0, 1.0), y=(2.0, 2.0)), log=log))
        assert chart is not None
        assert chart.y_ticks


def test_ticks_are_round_and_few() -> None:
    wide = geometry.chart(curves(Curve(name="a", x=(1.0, 4096.0), y=(1e-7, 10.0)), log=True))
    assert wide is not None
    texts = [text for _, text in wide.y_ticks]
    assert 3 <= len(texts) <= 9
    assert set(texts) <= {"100 ns", "1 us", "10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s", "10 s"}


def test_memory_is_marked_in_whole_mebibytes() -> None:
    picture = replace(curves(Curve(name="a", x=(0.0, 1.0), y=(0.0, 300.0 * (1 << 20)))), y_unit=Unit.BYTE)
    chart = geometry.chart(picture)
    assert chart is not None
    assert "100 MiB" in [text for _, text in chart.y_ticks]


def test_a_longer_bar_is_a_larger_value() -> None:
    bars = tuple((name, Quantity(value=value, unit=Unit.SECOND)) for name, value in (("a", 1.0), ("b", 4.0)))
    drawn = geometry.rows(Bars(title="", unit=Unit.SECOND, bars=bars))
    assert drawn is not None
    a, b = (row.mid for row in drawn.rows)
    assert a is not None and b is not None
    assert b == pytest.approx(4 * a, rel=1e-3)
    assert geometry.rows(Bars(title="", unit=Unit.SECOND, bars=())) is None
