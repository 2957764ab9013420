"""The page that parent and child share."""

from pathlib import Path

import pytest

from hotlap.record.progress import STEPS, Progress


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Progress, Progress]:
    return Progress(tmp_path / "progress"), Progress(tmp_path / "progress")


def test_what_one_side_writes_the_other_sees(pair: tuple[Progress, Progress]) -> None:
    child, parent = pair
    child.words[STEPS] = 123_456_789_012
    assert parent.steps == 123_456_789_012
    assert not child.must_stop(123_456_789_012)
    parent.ask_to_stop()
    assert child.must_stop(123_456_789_012)
    assert child.steps == 123_456_789_012


def test_a_new_page_is_all_zero(pair: tuple[Progress, Progress]) -> None:
    page = pair[0]
    assert (page.steps, page.must_stop(0), page.processes, page.num_left) == (0, False, 1, 0)


def test_a_page_that_was_closed_is_still_there_for_the_other(pair: tuple[Progress, Progress]) -> None:
    child, parent = pair
    child.words[STEPS] = 7
    child.close()
    assert parent.steps == 7


def test_processes_that_train_together_stop_after_a_step_that_all_will_make(pair: tuple[Progress, Progress]) -> None:
    child, parent = pair
    child.processes = 2
    child.words[STEPS] = 100
    parent.ask_to_stop()
    assert not child.must_stop(100), "a peer may be one step ahead already"
    assert not child.must_stop(101)
    assert child.must_stop(102)


def test_the_parent_sees_who_waits_to_be_ended(pair: tuple[Progress, Progress]) -> None:
    child, parent = pair
    child.processes = 3
    for process in (0, 2, 2):
        child.leave(process)
    assert (parent.processes, parent.num_left) == (3, 2)
    child.leave(100_000)
    assert parent.num_left == 3
    assert child.steps == 0


def test_processes_that_train_together_stop_when_none_wants_more_steps(pair: tuple[Progress, Progress]) -> None:
    one, other = pair
    one.processes = 2
    one.words[STEPS] = 50
    one.done(0)
    assert not one.must_stop(60)
    other.words[STEPS] = 60
    other.done(1)
    assert not other.must_stop(61), "the other one may be a step ahead already"
    assert other.must_stop(62)
    other.words[STEPS] = 61
    other.done(1)
    assert one.must_stop(62), "said again, it is the same step"
    assert one.num_left == 0
