"""Curves over the steps of a run."""

import pytest

from hotlap.record import NonFinite
from hotlap.report import series
from hotlap.report.scale import nice_ticks
from tests.samples import run_with, study_full


def lines(chart: series.Series | None) -> dict[str, tuple[str, ...]]:
    assert chart is not None
    return {line.name: line.segments for line in chart.lines}


def test_losses_that_are_not_finite_are_gaps() -> None:
    losses = (3.0, 2.0, NonFinite.NAN, 2.0, 1.0, NonFinite.POSITIVE, 1.0, None, 0.5, 0.4)
    chart = series.losses(run_with(num_steps=10, losses=losses), None)
    (segments,) = lines(chart).values()
    assert [len(set(points.split())) for points in segments] == [2, 2, 1, 2]
    assert chart is not None and chart.notes == ("gaps where it was NaN or infinite",)


def test_equal_losses_are_told_as_equal() -> None:
    run = run_with()
    chart = series.losses(run, run)
    assert list(lines(chart)) == ["loss of the baseline", "loss optimized"]
    assert chart is not None and "equal bit for bit" in chart.notes
    study = study_full()
    chart = series.losses(study.baseline[0], study.after)
    assert chart is not None and "equal bit for bit" not in chart.notes


def test_without_a_finite_loss_there_is_no_chart() -> None:
    assert series.losses(None, None) is None
    assert series.losses(run_with(num_steps=2, losses=(NonFinite.NAN, None)), None) is None


def test_long_runs_are_thinned_and_one_constant_loss_can_be_drawn() -> None:
    chart = series.losses(run_with(num_steps=4000, losses=(1.5,) * 4000), None)
    (segments,) = lines(chart).values()
    assert len(segments[0].split()) == 400
    assert chart is not None and chart.notes == ("means of 10 steps",)


@pytest.mark.parametrize("span", [1e-9, 0.0127, 1.0, 37.0, 5e8])
def test_ticks_are_round_few_and_within(span: float) -> None:
    ticks = nice_ticks(span)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] == 0
    assert ticks[-1] <= span * (1 + 1e-6)
