"""What a picture of some steps holds: moments as they were, pauses that cannot be seen closed."""

from pathlib import Path

import pytest

from hotlap.record import Phase
from hotlap.report import lanes
from tests.unit.trace.test_reading import LENGTH, STEPS, US, training
from tests.unit.trace.written import Written


def test_every_lane_holds_what_it_did_and_when(tmp_path: Path) -> None:
    run = training(input_us=690).read(tmp_path).run
    assert run.excerpt is not None
    assert (run.excerpt.first, len(run.excerpt.ends_s)) == (0, STEPS)
    begins = [number * LENGTH * US for number in range(STEPS)]
    loader = [span for span in run.excerpt.spans if span.lane == "loader"]
    assert [span.begin_s for span in loader] == pytest.approx(begins)
    device = [span for span in run.excerpt.spans if span.lane == "device"]
    assert [span.begin_s for span in device] == pytest.approx([begin + 697 * US for begin in begins])
    assert {span.phase for span in device} == {Phase.FORWARD}


def test_steps_that_are_odd_are_not_shown(tmp_path: Path) -> None:
    made, at = Written(), 0.0
    for number, length in enumerate((3000.0, *[LENGTH] * 7)):
        made.step(number, at, length)
        made.launch(at, at=at + 7, length=300)
        at += length
    run = made.read(tmp_path).run
    assert run.excerpt is not None
    assert run.excerpt.first > 0
    assert len(run.excerpt.ends_s) == 6
    assert run.excerpt.spans[0].begin_s == 0.0


def test_a_thousand_kernels_in_a_row_are_one_block(tmp_path: Path) -> None:
    made = Written()
    for number in range(3):
        made.step(number, number * 10_000, 10_000)
        for kernel in range(1000):
            at = number * 10_000 + kernel * 9
            made.launch(at, at=at + 7, length=8.9)
    run = made.read(tmp_path).run
    assert run.excerpt is not None
    assert len([span for span in run.excerpt.spans if span.lane == "device"]) == 3


def test_the_picture_is_drawn_from_them(tmp_path: Path) -> None:
    run = training(input_us=690).read(tmp_path).run
    drawn = lanes.timeline(run, None)
    assert drawn is not None
    assert list(drawn.before.lanes) == ["loader", "host", "device"]
    loader = drawn.before.lanes["loader"]
    assert [block.x for block in loader] == pytest.approx([0, 20, 40, 60, 80], abs=0.01)
    assert [block.width for block in loader] == pytest.approx([13.8] * 5, rel=0.01)
    assert drawn.before.waiting_share == pytest.approx(0.69, rel=0.01)
