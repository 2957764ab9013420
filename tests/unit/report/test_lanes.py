"""The picture of the two lanes shows steps as they went, on one axis."""

import dataclasses
from itertools import chain, pairwise

import pytest

from hotlap.record import Excerpt, Phase, Run, Span, Status
from hotlap.report import lanes
from tests.samples import run_with


def test_both_sides_share_one_axis_and_the_faster_one_fits_more_steps() -> None:
    picture = lanes.timeline(run_with(step_s=0.004, input_s=0.003), run_with(step_s=0.001, input_s=0.0))
    assert picture is not None
    assert picture.after is not None
    assert picture.span_s == pytest.approx(0.004 * len(picture.before.step_ends))
    assert (len(picture.before.step_ends), len(picture.after.step_ends)) == (6, 24)
    assert picture.before.waiting_share == pytest.approx(0.75, abs=1e-3)
    assert picture.after.waiting_share == 0.0


def test_blocks_stand_where_their_spans_were_and_what_lies_within_another_comes_after_it() -> None:
    spans = (
        Span(lane="host", phase=Phase.OPTIMIZER, begin_s=0.0, end_s=0.001),
        Span(lane="host", phase=Phase.FORWARD, begin_s=0.001, end_s=0.009),
        Span(lane="host", phase=Phase.SYNC, begin_s=0.003, end_s=0.004),
        Span(lane="loader", phase=Phase.INPUT, begin_s=0.009, end_s=0.010),
    )
    excerpt = Excerpt(first=7, ends_s=(0.005, 0.010), spans=spans)
    picture = lanes.timeline(dataclasses.replace(run_with(), excerpt=excerpt), None)
    assert picture is not None
    assert list(picture.before.lanes) == ["loader", "host"], "whatever came first"
    shown = [(block.phase, block.x, block.width) for block in picture.before.lanes["host"]]
    assert shown == [(Phase.OPTIMIZER, 0, 10), (Phase.FORWARD, 10, 80), (Phase.SYNC, 30, 10)]
    assert [(block.x, block.width) for block in picture.before.lanes["loader"]] == [(90, 10)]
    assert picture.before.step_ends == (50, 100)
    assert picture.shown == (Phase.INPUT, Phase.FORWARD, Phase.OPTIMIZER, Phase.SYNC)


def test_what_does_not_fit_on_the_axis_is_cut_off_at_its_end() -> None:
    picture = lanes.timeline(run_with(step_s=0.001), run_with(step_s=0.0031))
    assert picture is not None
    assert picture.after is not None
    assert len(picture.before.step_ends) == 24
    blocks = sorted(chain(*picture.after.lanes.values()), key=lambda block: block.x)
    assert len(picture.after.step_ends) == 7
    assert blocks[-1].x + blocks[-1].width == pytest.approx(100, abs=0.01)
    assert all(left.x + left.width <= right.x + 0.01 for left, right in pairwise(blocks))


def test_letters_are_left_out_where_there_is_no_room() -> None:
    run = run_with(step_s=1.0, input_s=0.999)
    assert run.excerpt is not None
    short = dataclasses.replace(run.excerpt, ends_s=run.excerpt.ends_s[:2])
    picture = lanes.timeline(dataclasses.replace(run, excerpt=short), None)
    assert picture is not None
    assert {block.letter for block in picture.before.lanes["loader"]} == {"I"}
    assert {block.letter for block in picture.before.lanes["host"]} == {""}


def test_steps_that_nobody_saw_make_no_picture() -> None:
    assert lanes.timeline(None, None) is None
    assert lanes.timeline(dataclasses.replace(run_with(), excerpt=None), run_with()) is None
    assert lanes.timeline(Run(status=Status.COMPLETE, excerpt=Excerpt(first=0, ends_s=(0.0,), spans=())), None) is None


def test_a_gain_of_a_thousand_draws_one_step_beside_all_that_were_seen() -> None:
    picture = lanes.timeline(run_with(step_s=1.0), run_with(step_s=0.0005, num_steps=5000))
    assert picture is not None
    assert picture.after is not None
    assert picture.span_s == pytest.approx(1.0)
    assert (len(picture.before.step_ends), len(picture.after.step_ends)) == (1, 24)


@pytest.mark.parametrize("span", [1e-9, 0.0127, 1.0, 37.0, 5e8])
def test_ticks_are_round_few_and_within(span: float) -> None:
    ticks = lanes.nice_ticks(span)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] == 0
    assert ticks[-1] <= span * (1 + 1e-6)
