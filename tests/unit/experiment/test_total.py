"""hotlap.experiment.total: what a whole training takes, and how that compares."""

import math
from dataclasses import replace

import pytest

from hotlap.experiment.total import (
    Length,
    epoch_end_s,
    in_any_hour,
    long_step_s,
    never_shorter,
    total_s,
    total_speedup,
    whole_speedup,
)
from hotlap.record import Interval, Run, Status
from tests.unit.tune.world import LOADER


def training(step_s: float, *, fill_s: float = 0.0, start_s: float = 0.0, validation_s: float = 0.0) -> Run:
    """A process that recorded 40 steps, one of which starts an epoch of 100; its first 10 fill something."""
    steps = [step_s] * 40
    steps[20] += start_s
    return Run(
        status=Status.COMPLETE,
        setup_s=2.0 + step_s + fill_s / 10,
        first_steps_s=(1.5 + step_s + fill_s / 10, *[step_s + fill_s / 10] * 9),
        step_s=tuple(steps),
        epoch_starts=(20,),
        validation_s=validation_s,
        num_validations=1 if validation_s else 0,
    )


def test_start_fill_epoch_starts_and_validations_are_in_the_total() -> None:
    run = training(0.01, fill_s=1.0, start_s=0.5, validation_s=0.3)
    # 2 s of start, 10 first steps with the fill, 990 later ones, each with its part of what an epoch costs once.
    assert total_s(run, Length(1000, 100)) == pytest.approx(2.0 + 0.1 + 1.0 + 990 * (0.01 + 0.8 / 100))


def test_an_epochs_end_that_the_run_did_not_see_counts_as_it_came_elsewhere() -> None:
    unseen = replace(training(0.01), epoch_starts=())
    assert total_s(unseen, Length(1000, 100), end_s=0.8) == pytest.approx(2.1 + 990 * (0.01 + 0.008))
    seen = training(0.01, start_s=0.5, validation_s=0.3)
    assert total_s(seen, Length(1000, 100), end_s=9.0) == total_s(seen, Length(1000, 100))
    told = total_speedup([(unseen, unseen)] * 3, Length(1000, 100), pooled=None, ends_s=(2.0, 0.5))
    assert told is not None and told.mid == pytest.approx((2.1 + 9.9 + 9.9 * 2.0) / (2.1 + 9.9 + 9.9 * 0.5))


def test_an_epochs_end_is_its_validation_and_a_longer_first_step_of_the_next_one_not_the_first_of_all() -> None:
    run = training(0.01, start_s=0.5, validation_s=0.3)
    assert epoch_end_s(run, epoch_steps=100) == pytest.approx(0.8)
    assert epoch_end_s(training(0.01, start_s=0.5), epoch_steps=100) == pytest.approx(0.5)
    first = replace(run, epoch_starts=(0, 20), step_index=tuple(range(40)), step_s=(3.0, *run.step_s[1:]))
    assert epoch_end_s(first, epoch_steps=100) == pytest.approx(0.8), "3 s hold what comes before the first batch"
    assert epoch_end_s(replace(first, epoch_starts=(0,), num_validations=0), epoch_steps=100) is None
    assert epoch_end_s(Run(status=Status.CRASHED), epoch_steps=100) is None


def test_a_validation_every_so_many_steps_counts_as_often_as_it_comes() -> None:
    """40 steps of epochs of 100 saw two: five an epoch. One in every other epoch counts half."""
    run = replace(training(0.01, validation_s=0.6), num_validations=2)
    assert long_step_s(run, epoch_steps=100) == pytest.approx(0.01 + 0.6 / 40)
    within = replace(training(0.01, validation_s=0.3), epoch_starts=())
    assert long_step_s(within, epoch_steps=100) == pytest.approx(0.01 + 0.3 / 40)
    seldom = replace(training(0.01, validation_s=0.3), epoch_starts=(10, 30))
    assert long_step_s(seldom, epoch_steps=20) == pytest.approx(0.01 + 0.15 / 20)


def test_what_hotlap_took_to_start_is_not_in_the_total() -> None:
    run = training(0.01)
    told = total_s(replace(run, own_start_s=0.4), Length(100, 100))
    assert told == pytest.approx(total_s(run, Length(100, 100)) - 0.4)


def test_a_training_that_is_shorter_than_its_warm_up_takes_its_own_steps_only() -> None:
    assert total_s(training(0.01, fill_s=1.0), Length(5, 100)) == pytest.approx(2.0 + 0.05 + 0.5)


def test_where_epochs_are_not_known_their_starts_count_as_they_came() -> None:
    run = training(0.01, start_s=0.4, validation_s=0.2)
    assert long_step_s(run, epoch_steps=None) == pytest.approx(0.01 + 0.6 / 40)
    assert math.isnan(long_step_s(Run(status=Status.CRASHED), epoch_steps=None))


def test_what_is_paid_once_counts_in_a_short_training_and_not_in_the_long_run() -> None:
    pairs = [(training(0.010), training(0.005, fill_s=3.0))] * 4
    short = total_speedup(pairs, Length(400, 100), pooled=None)
    long = total_speedup(pairs, Length(None, 100), pooled=None)
    assert short is not None and long is not None
    assert short.mid == pytest.approx((2.0 + 4.0) / (2.0 + 3.0 + 2.0))
    assert long.mid == pytest.approx(2.0)


def test_one_pair_of_processes_alone_has_no_interval() -> None:
    assert total_speedup([(training(0.01), training(0.005))], Length(100, None), pooled=None) is None
    assert total_speedup([], Length(100, None), pooled=None) is None


def test_an_epoch_is_that_of_the_one_loader_that_is_trained_on() -> None:
    assert Run(status=Status.COMPLETE, loaders=(LOADER,)).epoch_steps() == 16
    assert Run(status=Status.COMPLETE, loaders=(LOADER, LOADER)).epoch_steps() is None
    assert Run(status=Status.COMPLETE).epoch_steps() is None
    accumulates = Run(status=Status.COMPLETE, loaders=(LOADER,), num_samples=(256,) * 4)
    assert accumulates.epoch_steps() == 4, "each step takes four batches of 64"


def test_an_epoch_of_processes_that_share_the_items_is_as_long_as_their_samplers_say() -> None:
    assert Run(status=Status.COMPLETE, loaders=(LOADER,), world_size=2).epoch_steps() is None
    shared = replace(LOADER, num_batches=8)
    assert Run(status=Status.COMPLETE, loaders=(shared,), world_size=2).epoch_steps() == 8


def test_a_training_is_called_no_shorter_only_where_every_pair_says_so() -> None:
    base, faster = training(0.01), training(0.008)
    dear = training(0.008, start_s=0.5)

    def never(*others: Run) -> bool:
        return never_shorter([(base, other) for other in others], Length(None, 100), at_once=1)

    assert not never(faster)
    assert never(dear, dear)
    assert not never(dear, faster), "a pause of one process decides nothing"
    assert not never()


def test_a_cost_comes_too_late_only_in_a_training_whose_length_is_known() -> None:
    pairs = [(training(0.01), training(0.005, fill_s=5.0))]
    assert never_shorter(pairs, Length(900, 100), at_once=1)
    assert not never_shorter(pairs, Length(1100, 100), at_once=1)
    assert not never_shorter(pairs, Length(None, 100), at_once=1)


def test_a_cost_at_the_start_of_several_processes_is_less_for_one_of_them() -> None:
    pairs = [(training(0.01), training(0.005, fill_s=5.0))]
    assert not never_shorter(pairs, Length(900, 100), at_once=4)
    assert never_shorter(pairs, Length(200, 100), at_once=4), "1.7 s are more than 200 steps save"
    slower = [(training(0.01), training(0.011))]
    assert never_shorter(slower, Length(900, 100), at_once=4)


def test_beside_the_base_alone_a_cost_is_what_was_seen() -> None:
    """The base waits for its turn behind a start as long as both have, and the other goes on alone."""
    pairs = [(training(0.01), training(0.005, fill_s=5.0))]
    assert never_shorter(pairs, Length(900, 100), at_once=2)


def waiting(run: Run, waited_s: float) -> Run:
    """The same, `waited_s` longer at its start."""
    first_s, *others_s = run.first_steps_s
    assert run.setup_s is not None
    return replace(run, setup_s=run.setup_s + waited_s, first_steps_s=(first_s + waited_s, *others_s))


def test_what_both_waited_for_each_other_at_their_start_is_not_in_a_training_by_itself() -> None:
    alone = training(0.010)
    pairs = [(waiting(alone, 3.0), waiting(training(0.005, fill_s=1.0), 3.0))] * 4
    true = (2.0 + 10.0) / (2.0 + 1.0 + 5.0)
    told = total_speedup(pairs, Length(1000, 100), pooled=None, alone=alone)
    assert told is not None and told.mid == pytest.approx(true)
    seen = total_speedup(pairs, Length(1000, 100), pooled=None)
    assert seen is not None and seen.mid < 1.4 < true
    assert told.low == seen.low and told.high > true, "one run by itself is no proof: what was seen is in it as well"


def test_a_first_run_that_started_slowly_changes_nothing() -> None:
    pairs = [(training(0.010), training(0.005, fill_s=1.0))] * 4
    told = total_speedup(pairs, Length(1000, 100), pooled=None, alone=waiting(training(0.010), 3.0))
    assert told == total_speedup(pairs, Length(1000, 100), pooled=None)
    unknown = total_speedup(pairs, Length(1000, 100), pooled=None, alone=Run(status=Status.CRASHED))
    assert told == unknown


def levels(*of: float) -> list[tuple[Run, Run]]:
    """Pairs of a training and one of half the step, each at a level of the machine."""
    return [(training(0.01 * level), training(0.005 * level)) for level in of]


def told(whole_s: list[tuple[float, float]], pairs: list[tuple[Run, Run]], by_steps: Interval | None) -> Interval:
    found = whole_speedup(whole_s, pairs, by_steps, Length(1000, None))
    assert found is not None
    return found


BY_STEPS = Interval(low=1.9, mid=2.0, high=2.1)


def test_whole_trainings_count_for_much_where_the_machine_is_steady_and_for_little_where_it_is_not() -> None:
    whole_s = [(25.0, 10.0)]
    steady, unsteady = levels(1.0, 1.01, 0.99, 1.0), levels(1.0, 1.4, 0.9, 1.3)
    assert told(whole_s, steady, BY_STEPS).mid == pytest.approx(2.5, rel=0.02)
    assert told(whole_s, unsteady, BY_STEPS).mid == pytest.approx(2.0, rel=0.05)
    assert told(whole_s * 4, unsteady, BY_STEPS).mid > told(whole_s, unsteady, BY_STEPS).mid
    assert told(whole_s, unsteady, None).mid == pytest.approx(2.5), "nothing else is known"
    assert told([], steady, BY_STEPS) == BY_STEPS
    assert whole_speedup(whole_s, [], None, Length(1000, None)) is None, "one may be anything"


def test_one_or_two_whole_trainings_that_contradict_the_steps_leave_both_in_the_interval() -> None:
    steady = levels(1.0, 1.01, 0.99, 1.0)
    for number in (1, 2):
        both = told([(40.0, 10.0)] * number, steady, BY_STEPS)
        assert both.low == BY_STEPS.low and both.high > 4.0
    assert told([(40.0, 10.0)] * 3, steady, BY_STEPS).low > 3.5, "three that agree were not disturbed"
    near = told([(20.5, 10.0)], steady, BY_STEPS)
    assert near.low < BY_STEPS.mid and near.high > 2.05 and near.high / near.low < 1.15


def test_in_any_hour_a_total_is_as_uncertain_as_what_it_saves() -> None:
    sure = Interval(low=1.99, mid=2.0, high=2.01)
    found = in_any_hour(sure)
    assert found.mid == 2.0 and found.low == pytest.approx(2.0 / math.exp(0.196), rel=0.01)
    assert found.high == pytest.approx(2.0 * math.exp(0.196), rel=0.01)
    small = in_any_hour(Interval(low=1.01, mid=1.03, high=1.05))
    assert 1.0 < small.low < 1.01 and 1.05 < small.high < 1.055, "little is saved, and little can vary"
    slower = in_any_hour(Interval(low=0.88, mid=0.9, high=0.92))
    assert slower.low < 0.88 and 0.92 < slower.high < 1.0
    nothing = Interval(low=0.95, mid=1.0, high=1.05)
    assert in_any_hour(nothing).low == pytest.approx(0.95) and in_any_hour(nothing).high == pytest.approx(1.05)
