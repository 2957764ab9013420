"""The picture of the two lanes is made of real steps, on one axis."""

import dataclasses
from itertools import pairwise

import pytest

from hotlap.record import Phase, Run, Status
from hotlap.report import lanes
from tests.sample_measured import run_on_gpu
from tests.samples import run_with, study_full


def blocks_of(side: lanes.Lanes, name: str) -> tuple[lanes.Block, ...]:
    (lane,) = (lane for lane in side.lanes if lane.name == name)
    return lane.blocks


def test_both_sides_share_one_axis_and_the_faster_one_fits_more_steps() -> None:
    picture = lanes.timeline(run_with(step_s=0.004, input_s=0.003), run_with(step_s=0.001, input_s=0.0))
    assert picture is not None
    assert picture.after is not None
    assert picture.span_s == pytest.approx(0.004 * picture.before.num_steps)
    assert picture.after.num_steps == 4 * picture.before.num_steps
    assert picture.before.waiting_share == pytest.approx(0.75, abs=1e-3)
    assert picture.after.waiting_share == 0.0


def test_blocks_lie_within_the_axis_do_not_overlap_and_keep_their_lane() -> None:
    study = study_full()
    picture = lanes.timeline(study.baseline[0], study.after)
    assert picture is not None
    assert picture.after is not None
    for side in (picture.before, picture.after):
        assert {block.phase for block in blocks_of(side, "loader")} == {Phase.INPUT}
        assert Phase.INPUT not in {block.phase for block in blocks_of(side, "trainer")}
        blocks = sorted((*blocks_of(side, "loader"), *blocks_of(side, "trainer")), key=lambda block: block.x)
        for left, right in pairwise(blocks):
            assert left.x + left.width <= right.x + 0.01
        assert blocks[-1].x + blocks[-1].width <= 100.01


def test_widths_are_the_recorded_times() -> None:
    run = run_with(phases={Phase.INPUT: 0.002, Phase.FORWARD: 0.001})
    picture = lanes.timeline(run, None)
    assert picture is not None
    assert blocks_of(picture.before, "loader")[0].width == pytest.approx(
        2 * blocks_of(picture.before, "trainer")[0].width, abs=0.01
    )
    assert blocks_of(picture.before, "loader")[0].width == pytest.approx(100 * 0.002 / picture.span_s, abs=0.01)


def test_a_stretch_with_an_outlier_is_not_shown_as_the_usual_one() -> None:
    step_s = [1.0, 9.0, 1.0, 1.1, 1.0, 1.0, 0.9, 1.0]
    assert lanes.typical_stretch(step_s, 3) == 2


def test_letters_are_left_out_where_there_is_no_room() -> None:
    picture = lanes.timeline(run_with(step_s=1.0, input_s=0.999), None)
    assert picture is not None
    assert {block.letter for block in blocks_of(picture.before, "loader")} == {"I"}
    assert {block.letter for block in blocks_of(picture.before, "trainer")} == {""}


def test_steps_without_phases_make_no_picture() -> None:
    assert lanes.timeline(None, None) is None
    assert lanes.timeline(Run(status=Status.COMPLETE, step_s=(0.1, 0.1)), None) is None
    assert lanes.timeline(dataclasses.replace(run_with(), step_s=(0.0,) * 100), None) is None


def test_a_gain_of_a_thousand_does_not_draw_a_thousand_steps() -> None:
    picture = lanes.timeline(run_with(step_s=1.0), run_with(step_s=0.0005, num_steps=5000))
    assert picture is not None
    assert picture.after is not None
    assert picture.after.num_steps == lanes.MAX_STEPS_DRAWN
    assert picture.after.num_fit == pytest.approx(2000 * picture.before.num_steps, abs=1)


def test_how_many_steps_fit_does_not_depend_on_how_many_were_recorded() -> None:
    picture = lanes.timeline(run_with(step_s=0.16), run_with(step_s=0.0025, num_steps=18))
    assert picture is not None
    assert picture.after is not None
    assert picture.after.num_steps == 18
    assert picture.after.num_fit == pytest.approx(64 * picture.before.num_steps, abs=1)


def test_copies_have_a_lane_of_their_own() -> None:
    picture = lanes.timeline(run_on_gpu(), None)
    assert picture is not None
    assert [lane.name for lane in picture.before.lanes] == ["loader", "copy", "host"]
    assert {block.phase for block in blocks_of(picture.before, "copy")} == {Phase.TRANSFER}
    for lane in picture.before.lanes:
        blocks = sorted(lane.blocks, key=lambda block: block.x)
        assert all(a.x + a.width <= b.x + 0.01 for a, b in pairwise(blocks))
