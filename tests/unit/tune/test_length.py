"""How many steps a whole training makes, told from a measured run."""

from dataclasses import replace

import pytest

from hotlap.record import ShapeFacts, Status
from hotlap.tune.tuner import _length
from tests.sample_runs import run_with


@pytest.mark.parametrize(("looked_at", "length"), [(0, 103), (90, 103), (564, 564)])
def test_a_script_that_came_to_its_end_has_all_its_steps_those_of_the_closer_look_too(
    looked_at: int, length: int
) -> None:
    shapes = ShapeFacts(num_steps=looked_at, num_shapes=2, num_new_late=0)
    run = replace(run_with(num_steps=100), status=Status.ENDED, shapes=shapes)
    assert _length(run) == length


def test_a_run_whose_shapes_were_not_looked_at_has_the_steps_recorded() -> None:
    assert _length(replace(run_with(num_steps=100), status=Status.ENDED, shapes=None)) == 103


def test_a_run_that_was_stopped_says_what_its_loops_planned() -> None:
    run = replace(run_with(num_steps=100), planned_steps=5000)
    assert _length(run) == 5000
    assert _length(replace(run_with(num_steps=100), planned_steps=None)) is None
