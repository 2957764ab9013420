"""What each step is for: warm-up, an arm's block, or the end."""

from collections.abc import Callable, Collection
from itertools import chain, groupby, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.probe.schedule import Move, Schedule
from hotlap.record import Plan, Turn
from hotlap.record.order import rounds

ARMS = ((), ({"name": "threads", "count": 1},), ({"name": "fused-optimizer"},))


def plan(**given: int | float | bool) -> Plan:
    num_arms = int(given.pop("arms", 1))
    return Plan(command=("python",), cwd="/", out="/", arms=ARMS[:num_arms], **given)  # type: ignore[arg-type]


def moves(
    plan: Plan,
    *,
    settled: Callable[[int], bool] = lambda step: True,
    epoch: int = 0,
    validated: Collection[int] = (),
    step_s: float = 0.001,
) -> list[Move]:
    """What each step was for, until the schedule is done; an epoch of `epoch` steps begins anew, and in front of the
    steps `validated` the model is evaluated."""
    schedule = Schedule(plan)
    made: list[Move] = []
    for step in range(20_000):
        made.append(schedule.move)
        started = epoch > 0 and step % epoch == 0
        move = schedule.advance(
            settled=settled(step), elapsed_s=step * step_s, epoch_started=started, aside=step in validated
        )
        if move.done:
            return made
    raise AssertionError("it is never done")


def recorded(made: list[Move]) -> list[Move]:
    return [move for move in made if move.recorded]


def test_warm_up_comes_first_then_exactly_the_wanted_steps() -> None:
    made = moves(plan(warmup=5, steps=12, block=4))
    assert [move.recorded for move in made] == [False] * 5 + [True] * 12


def test_without_a_warm_up_the_very_first_step_is_recorded() -> None:
    made = moves(plan(warmup=0, steps=3))
    assert [move.recorded for move in made] == [True] * 3


def test_a_block_is_as_long_as_asked_and_its_first_step_says_so() -> None:
    made = recorded(moves(plan(warmup=3, steps=12, block=4)))
    assert [move.new_block for move in made] == [True, False, False, False] * 3
    assert [move.block for move in made] == [0] * 4 + [1] * 4 + [2] * 4


def test_behind_the_round_that_is_thrown_away_arms_take_turns_in_the_drawn_order() -> None:
    made = recorded(moves(plan(arms=3, warmup=2, steps=20, block=5, order_seed=7)))
    blocks = [next(iter(group)).arm for _, group in groupby(made, key=lambda move: move.block)]
    assert blocks == list(chain.from_iterable(islice(rounds(3, 7), 4)))


def test_each_arm_first_makes_a_block_that_is_thrown_away() -> None:
    made = moves(plan(arms=2, warmup=4, steps=6, block=3))
    thrown = made[4:10]
    assert [move.arm for move in thrown] == [0, 0, 0, 1, 1, 1]
    assert not any(move.recorded for move in thrown)
    assert thrown[0].new_block
    assert all(move.recorded for move in made[10:])


@given(arms=st.integers(1, 3), rounds=st.integers(1, 6), block=st.integers(1, 12), warmup=st.integers(0, 20))
def test_each_arm_gets_the_wanted_steps(arms: int, rounds: int, block: int, warmup: int) -> None:
    made = recorded(moves(plan(arms=arms, warmup=warmup, steps=rounds * block, block=block)))
    assert [sum(move.arm == arm for move in made) for arm in range(arms)] == [rounds * block] * arms


def test_a_lever_that_has_not_settled_prolongs_the_warm_up() -> None:
    made = moves(plan(warmup=5, steps=4), settled=lambda step: step >= 30)
    assert sum(not move.recorded for move in made) == 31


def test_the_warm_up_ends_when_patience_is_over() -> None:
    made = moves(plan(warmup=5, steps=4, warmup_max_s=1.0), settled=lambda step: False, step_s=0.1)
    assert sum(not move.recorded for move in made) == 11


def test_the_turn_decides_how_long_a_block_is() -> None:
    asked = Plan(command=(), cwd="/", out="/", warmup=1, steps=9, block=50, turn=Turn(steps=3, ready="/r", go="/g"))
    assert [move.new_block for move in recorded(moves(asked))] == [True, False, False] * 3


def test_a_whole_epoch_goes_on_until_the_second_one_has_begun() -> None:
    made = recorded(moves(plan(warmup=2, steps=50, whole_epoch=True), epoch=100))
    # The second epoch begins with step 100, of which two were warm-up; ten of its steps are wanted.
    assert 98 + 10 <= len(made) <= 98 + 13


@pytest.mark.parametrize(
    ("validated", "steps"),
    [
        ((), 50),
        ((0, 90, 180, 270), 180 - 2 + 1),  # an interval of 90 steps is known by its second end behind the warm-up
        ((0, 1000, 2000, 3000), 2000 - 2 + 1),
        ((0,), 4096),  # once, in front of the training
        (range(1000), 50),  # a teacher, in each step
        ((40, 45), 50),
    ],
)
def test_without_a_loader_a_second_validation_is_waited_for_where_there_was_one(
    validated: Collection[int], steps: int
) -> None:
    assert len(recorded(moves(plan(warmup=2, steps=50, whole_epoch=True), validated=validated))) == steps
    assert len(recorded(moves(plan(warmup=2, steps=50), validated=validated))) == 50


@pytest.mark.parametrize(("limits", "steps"), [({"evidence": True}, 200), ({"whole_epoch_s": 1.0}, 1000)])
def test_a_second_validation_is_waited_for_only_so_long(limits: dict[str, float], steps: int) -> None:
    asked = plan(warmup=2, steps=50, whole_epoch=True, **limits)
    assert len(recorded(moves(asked, validated=(0,)))) == pytest.approx(steps, abs=2)


@pytest.mark.parametrize(("enough_s", "steps"), [(None, 501 - 2), (10.0, 200)])
def test_where_it_is_to_be_quick_a_part_of_a_short_training_is_enough(enough_s: float | None, steps: int) -> None:
    """Of 600 planned steps that are validated every 250, profilers want some as well."""
    asked = plan(warmup=2, steps=50, whole_epoch=True, **({} if enough_s is None else {"enough_s": enough_s}))
    schedule = Schedule(asked)
    schedule.num_planned = 600
    for step in range(600):
        schedule.advance(settled=True, elapsed_s=step * 0.001, epoch_started=False, aside=step % 250 == 0)
        if schedule.is_late(step * 0.001):
            schedule.cut_short()
        if schedule.move.done:
            break
    assert step + 1 - 2 == pytest.approx(steps, abs=3)


def test_a_whole_epoch_that_is_over_early_still_gives_the_wanted_steps() -> None:
    assert len(recorded(moves(plan(warmup=2, steps=50, whole_epoch=True), epoch=10))) == 50


def test_an_epoch_without_end_is_left_after_four_times_the_wanted_steps() -> None:
    assert len(recorded(moves(plan(warmup=2, steps=50, whole_epoch=True), epoch=100_000))) == 200


def test_without_a_loader_no_epoch_is_waited_for() -> None:
    for warmup in (0, 2):
        assert len(recorded(moves(plan(warmup=warmup, steps=50, whole_epoch=True)))) == 50


def test_nothing_is_warm_before_the_warm_up_is_over() -> None:
    schedule = Schedule(plan(warmup=2, steps=5))
    assert not schedule.warm
    schedule.advance(settled=True, elapsed_s=0, epoch_started=False)
    assert not schedule.warm
    schedule.advance(settled=True, elapsed_s=0, epoch_started=False)
    assert schedule.warm
    assert schedule.wanted == 5


def test_of_a_training_that_is_soon_over_two_thirds_are_left_to_profilers() -> None:
    schedule = Schedule(plan(warmup=20, steps=200))
    schedule.num_planned = 300
    made = cut(schedule, step_s=0.001)
    assert [move.recorded for move in made] == [False] * 20 + [True] * 80


def test_what_seems_to_be_over_soon_is_looked_at_for_long_enough_to_see_that_it_goes_on() -> None:
    schedule = Schedule(plan(warmup=20, steps=200))
    schedule.num_planned = 10
    made = cut(schedule, step_s=0.001)
    assert [move.recorded for move in made] == [False] * 2 + [True] * 200


def test_in_a_training_that_is_soon_over_an_epochs_end_is_waited_for() -> None:
    for epoch in (100, 140):
        schedule = Schedule(plan(warmup=2, steps=50, whole_epoch=True))
        schedule.num_planned = 300
        made = cut(schedule, step_s=0.001, epoch=epoch)
        assert len(recorded(made)) == epoch - 2 + 11


def test_where_a_training_is_soon_over_the_next_look_comes_in_time() -> None:
    schedule = Schedule(plan(warmup=0, steps=200))
    schedule.num_planned = 300
    assert schedule.sure == 200
    schedule.advance(settled=True, elapsed_s=0.0, epoch_started=False)
    assert schedule.sure == 99
    schedule.num_planned = 30
    assert schedule.sure == 29


def cut(schedule: Schedule, *, step_s: float, steps: int = 1000, epoch: int = 0) -> list[Move]:
    """What each step was for, where the time is looked at after each; an epoch of `epoch` steps begins anew."""
    made: list[Move] = []
    for step in range(steps):
        made.append(schedule.move)
        started = epoch > 0 and step % epoch == 0
        schedule.advance(settled=True, elapsed_s=step * step_s, epoch_started=started)
        if schedule.is_late(step * step_s):
            schedule.cut_short()
        if schedule.move.done:
            break
    return made


def test_of_long_steps_fewer_are_made_so_that_profilers_get_theirs() -> None:
    schedule = Schedule(plan(warmup=20, steps=200))
    schedule.left_s = 100.0
    made = cut(schedule, step_s=1.0)
    assert len(made) == pytest.approx(33, abs=3), "two thirds of the time are left"
    assert len(made) - len(recorded(made)) == pytest.approx(10, abs=3)
    assert schedule.move.done
    assert not schedule.is_late(1e9)


def test_there_are_steps_enough_to_tell_them_from_chance_however_long_they_are() -> None:
    schedule = Schedule(plan(warmup=20, steps=200))
    schedule.left_s = 10.0
    made = cut(schedule, step_s=60.0)
    assert [move.recorded for move in made] == [False] * 2 + [True] * 8


def test_short_steps_and_steps_without_a_limit_are_all_made() -> None:
    for left_s in (None, 100.0):
        schedule = Schedule(plan(warmup=20, steps=200))
        schedule.left_s = left_s
        assert len(recorded(cut(schedule, step_s=0.01))) == 200


def test_where_fewer_steps_will_do_long_ones_are_cut_short_and_short_ones_are_not() -> None:
    schedule = Schedule(plan(steps=200, warmup=2, enough_s=10.0))
    for made in range(1, 33):
        assert not schedule.is_late(1.0 * made), made
        schedule.advance(settled=True, elapsed_s=1.0 * made, epoch_started=False)
    assert schedule.is_late(32.0)
    assert not schedule.is_late(9.0)
    schedule.cut_short()
    assert schedule.move.done
    assert Schedule(plan(steps=200, warmup=0, enough_s=10.0)).sure == 30, "it must be looked up by then"


def test_arms_that_are_compared_are_never_cut_short() -> None:
    schedule = Schedule(plan(arms=2, warmup=2, steps=20, block=5))
    schedule.left_s = 1.0
    assert not schedule.is_late(100.0)
    assert len(recorded(cut(schedule, step_s=1.0))) == 40


def test_a_whole_run_is_recorded_but_for_one_gap() -> None:
    schedule = Schedule(plan(warmup=5, steps=20, whole=True))
    schedule.opens_s = 1.0
    assert len(cut(schedule, step_s=0.01)) == pytest.approx(101, abs=2)
    schedule.go_on()
    made = cut(schedule, step_s=0.01, steps=500)
    assert len(recorded(made)) == 500


def test_a_whole_run_without_windows_is_recorded_from_its_warm_up_on() -> None:
    schedule = Schedule(plan(warmup=5, steps=20, whole=True))
    assert len(recorded(cut(schedule, step_s=1.0, steps=300))) == 295
    assert schedule.sure > 300, "nothing is to be decided"
