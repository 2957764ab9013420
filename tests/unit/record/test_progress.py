"""The page that parent and child share."""

from pathlib import Path

import pytest

from hotlap.record.progress import Progress


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Progress, Progress]:
    return Progress(tmp_path / "progress"), Progress(tmp_path / "progress")


def test_what_one_side_writes_the_other_sees(pair: tuple[Progress, Progress]) -> None:
    child, parent = pair
    child.steps = 123_456_789_012
    child.arm = 2
    assert (parent.steps, parent.arm) == (123_456_789_012, 2)
    assert not child.stop
    parent.ask_to_stop()
    assert child.stop
    assert (child.steps, child.arm) == (123_456_789_012, 2)


def test_a_new_page_is_all_zero(pair: tuple[Progress, Progress]) -> None:
    assert (pair[0].steps, pair[0].arm, pair[0].stop) == (0, 0, False)


def test_an_arm_beyond_a_byte_is_the_last(pair: tuple[Progress, Progress]) -> None:
    pair[0].arm = 1000
    assert pair[1].arm == 255


def test_a_page_that_was_closed_is_still_there_for_the_other(pair: tuple[Progress, Progress]) -> None:
    child, parent = pair
    child.steps = 7
    child.close()
    assert parent.steps == 7
