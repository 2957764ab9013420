"""What a run says about itself."""

import math

import pytest

from hotlap.record import NonFinite, Phase, Run, State, Status, Verdict, as_float, as_number
from tests.sample_runs import run_with


def test_shares_are_parts_of_the_whole_recorded_time() -> None:
    run = run_with(step_s=0.010, input_s=0.004)
    assert run.share(Phase.INPUT) == pytest.approx(0.4)
    assert run.mean_phase_s(Phase.INPUT) == pytest.approx(0.004)


def test_what_was_not_measured_has_no_share() -> None:
    run = Run(status=Status.COMPLETE, step_s=(1.0,), phase_s={Phase.FORWARD: None})
    assert run.share(Phase.FORWARD) is None
    assert run.share(Phase.SYNC) is None
    assert run.mean_phase_s(Phase.FORWARD) is None


def test_without_a_step_there_is_no_median() -> None:
    assert math.isnan(Run(status=Status.SILENT).median_step_s())
    assert Run(status=Status.SILENT, step_s=(3.0, 1.0, 2.0)).median_step_s() == 2.0


def test_steps_that_took_no_time_have_no_shares() -> None:
    assert Run(status=Status.COMPLETE, step_s=(0.0,), phase_s={Phase.INPUT: (0.0,)}).share(Phase.INPUT) is None


@pytest.mark.parametrize(
    ("value", "held"),
    [(1.5, 1.5), (None, None), (math.inf, NonFinite.POSITIVE), (-math.inf, NonFinite.NEGATIVE), (0.0, 0.0)],
)
def test_numbers_go_in_and_out(value: float | None, held: object) -> None:
    assert as_number(value) == held
    assert as_float(as_number(value)) == value


def test_nan_is_held_by_its_name() -> None:
    assert as_number(math.nan) is NonFinite.NAN
    assert math.isnan(as_float(NonFinite.NAN) or 0.0)


def test_the_words_that_other_programs_read_are_these() -> None:
    assert [str(word) for word in Verdict] == ["UNHARMED", "HARMED", "UNDECIDED"]
    assert [str(word) for word in State] == ["running", "interrupted", "complete"]
    assert {str(word) for word in Status} == {
        "complete", "ended", "crashed", "killed", "hung", "lapsed", "silent",
    }  # fmt: skip
    assert [str(word) for word in Phase] == [
        "input", "transfer", "forward", "backward", "optimizer", "communication", "sync", "other",
    ]  # fmt: skip
