"""The steps of one arm, as a run of their own."""

from dataclasses import replace

from hotlap.record import Phase, Run, Status, of_arm
from tests.samples import THREADS

SWITCHED = Run(
    status=Status.COMPLETE,
    arms=((), (THREADS,)),
    step_s=(1.0, 2.0, 3.0, 4.0),
    phase_s={Phase.INPUT: (0.1, 0.2, 0.3, 0.4), Phase.SYNC: None},
    arm=(0, 1, 1, 0),
    block=(0, 1, 2, 3),
    step_index=(20, 21, 22, 23),
    epoch_starts=(1, 3),
    loss=(4.0, 3.0, 2.0, 1.0),
    num_samples=(64, 64, 64, 32),
    num_updates=(1, 1, 1, 1),
    num_forwards=(1, 2, 2, 1),
)


def test_only_the_steps_of_the_arm_are_left() -> None:
    run = of_arm(SWITCHED, 1)
    assert run.arms == ((THREADS,),)
    assert run.step_s == (2.0, 3.0)
    assert run.phase_s == {Phase.INPUT: (0.2, 0.3), Phase.SYNC: None}
    assert (run.block, run.step_index, run.loss) == ((1, 2), (21, 22), (3.0, 2.0))
    assert run.num_forwards == (2, 2)
    assert set(run.arm) == {0}


def test_epoch_starts_point_at_the_steps_that_are_left() -> None:
    assert of_arm(SWITCHED, 0).epoch_starts == (1,)
    assert of_arm(SWITCHED, 1).epoch_starts == (0,)


def test_a_run_of_one_arm_stays_as_it_is() -> None:
    alone = replace(SWITCHED, arms=((),), arm=(0,) * 4)
    assert of_arm(alone, 0) == alone
