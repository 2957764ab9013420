"""Where training steps end: by optimizers in a cycle, or by backward passes."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from hotlap.probe.steps import MAX_ACCUMULATION, StepMarker

BACKWARD = "b"


def marks(story: Sequence[int | str], *, made: Sequence[int] = ()) -> list[bool]:
    """Does a training step end at each event? A number is an optimizer's step, "b" a backward pass."""
    marker = StepMarker()
    for optimizer in made:
        marker.made(optimizer)
    return [marker.went_backward() if event == BACKWARD else marker.stepped(int(event)) for event in story]


def test_each_step_of_a_single_optimizer_is_a_training_step() -> None:
    assert marks([BACKWARD, 0, BACKWARD, 0], made=[0]) == [False, True, False, True]


def test_gradients_that_are_accumulated_end_no_step() -> None:
    assert marks([BACKWARD] * 4 + [0], made=[0]) == [False] * 4 + [True]


def test_lbfgs_goes_backward_many_times_within_its_one_step() -> None:
    # Its closures run inside of step(), which is heard when it is over.
    assert marks(([BACKWARD] * 20 + [0]) * 3, made=[0]) == ([False] * 20 + [True]) * 3


def test_without_an_optimizer_backward_passes_mark_the_steps() -> None:
    assert marks([BACKWARD, BACKWARD, BACKWARD]) == [True, True, True]


def test_a_gan_ends_its_step_with_the_last_optimizer_of_the_cycle() -> None:
    cycle: list[int | str] = [BACKWARD, 0, BACKWARD, 1]
    # The first cycle is learned from; from the second on its end is known.
    assert marks(cycle * 4, made=[0, 1])[4:] == [False, False, False, True] * 3


def test_a_critic_that_steps_more_often_does_not_end_the_step() -> None:
    found = marks([0, 0, 0, 1] * 5, made=[0, 1])
    assert sum(found[-8:]) == 2


def test_an_optimizer_that_is_never_used_changes_nothing_for_long() -> None:
    found = marks([BACKWARD, 0] * 40, made=[0, 1])
    assert sum(found) >= 40 - 13, "it is waited for as long as a critic's steps may take"


def test_an_optimizer_that_the_script_drops_is_not_waited_for() -> None:
    marker = StepMarker()
    marker.made(0)
    assert marker.stepped(0)
    marker.made(1)
    marker.gone(0)
    assert marker.stepped(1)


def test_a_second_training_waits_for_nothing_of_the_first() -> None:
    # Its optimizer may lie about until the collector comes.
    marker = StepMarker()
    marker.made(0)
    assert [marker.stepped(0) for _ in range(3)] == [True] * 3
    marker.made(1)
    assert [marker.stepped(1) for _ in range(3)] == [True] * 3


def test_an_optimizer_that_the_script_gave_up_is_forgotten() -> None:
    warm = [0, 1] * 5
    after = marks(warm + [0] * 120, made=[0, 1])[len(warm) :]
    assert not any(after[:50]), "it might come back"
    assert all(after[-60:]), "it does not: the one that is left marks the steps"


def test_an_optimizer_made_later_joins_the_cycle() -> None:
    marker = StepMarker()
    marker.made(0)
    assert marker.stepped(0)
    marker.made(1)
    found = [marker.stepped(optimizer) for optimizer in [0, 1] * 4]
    assert found[-4:] == [False, True, False, True]


def test_backward_passes_take_over_when_no_torch_optimizer_ever_steps() -> None:
    found = marks([BACKWARD] * 600, made=[0])
    assert not any(found[:512])
    assert all(found[513:])


def test_an_optimizer_that_comes_late_takes_over_from_the_backward_passes() -> None:
    assert marks([BACKWARD, BACKWARD, 0, BACKWARD, 0]) == [True, True, True, False, True]


@given(
    cycle=st.permutations(range(4)).flatmap(lambda order: st.integers(1, 4).map(lambda n: order[:n])),
    rounds=st.integers(3, 10),
)
def test_any_cycle_of_optimizers_is_one_step_a_round(cycle: list[int], rounds: int) -> None:
    found = marks(cycle * rounds, made=cycle)
    late = found[2 * len(cycle) :]
    assert sum(late) == rounds - 2
    assert late[len(cycle) - 1 :: len(cycle)] == [True] * (rounds - 2)


EVENTS = st.one_of(
    st.just(BACKWARD),
    st.integers(0, 2),
    st.tuples(st.sampled_from(["made", "gone"]), st.integers(0, 2)),
    st.just("many"),
)


@given(st.lists(EVENTS, max_size=60))
def test_the_short_way_for_an_only_optimizer_is_the_long_way(story: Sequence[int | str | tuple[str, int]]) -> None:
    short, long = StepMarker(), StepMarker()
    for event in story:
        if isinstance(event, tuple):
            for marker in (short, long):
                (marker.made if event[0] == "made" else marker.gone)(event[1])
        elif isinstance(event, int):
            if short.only == event:
                short.backwards = 0
                assert long.stepped(event)
            else:
                assert short.stepped(event) == long.stepped(event)
        else:
            for _ in range(1 if event == BACKWARD else 600):
                if short.only is not None and short.backwards < MAX_ACCUMULATION:
                    short.backwards += 1
                    assert not long.went_backward()
                else:
                    assert short.went_backward() == long.went_backward()
