"""Each moment of a step belongs to exactly one phase, however events nest: under a clock that the test moves."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.probe.clock import (
    BACKWARD,
    DRAW,
    EPOCH,
    FORWARD,
    INPUT,
    LOOK,
    LOSS,
    OTHER,
    PHASES,
    SAMPLES,
    STEP,
    STEP_END,
    TRAIN,
    Clock,
)


@dataclass
class Now:
    """A clock that moves when told."""

    seconds: float = 100.0

    def __call__(self) -> float:
        return self.seconds


def step(clock: Clock) -> list[float]:
    """The step that ends now, by phase."""
    clock.note((STEP_END, clock.now(), clock.now()))
    (step,) = clock.read()
    return step.spent


# A story: a phase with a story inside, or something that happens between. Whole seconds, so that sums are exact.
Story = Sequence[tuple[str, int, int, "Story"]]
stories: st.SearchStrategy[Story] = st.recursive(
    st.just([]),
    lambda inner: st.lists(
        st.tuples(
            st.sampled_from(["phase", "phase", "own"]), st.integers(0, len(PHASES) - 1), st.integers(0, 9), inner
        ),
        max_size=4,
    ),
    max_leaves=12,
)


def tell(story: Story, clock: Clock, now: Now, spent: list[float], where: int) -> None:
    """Live through `story`, and book each second by hand into `spent`."""
    for what, phase, passed, inner in story:
        now.seconds += passed
        spent[where] += passed
        if what == "own":
            begin = now()
            now.seconds += 7  # hotlap's own work, which no phase may pay for
            clock.own(begin)
            continue
        clock.enter(phase)
        now.seconds += passed
        spent[phase] += passed
        tell(inner, clock, now, spent, phase)
        assert clock.phase() is PHASES[phase]
        clock.leave()


@given(steps=st.lists(stories, max_size=5), pieces=st.integers(1, 3))
def test_time_goes_to_the_innermost_phase_however_rarely_it_is_read(steps: Sequence[Story], pieces: int) -> None:
    now = Now()
    clock = Clock(now)
    expected: list[list[float]] = []
    found: list[list[float]] = []
    for k, story in enumerate(steps):
        spent = [0.0] * len(PHASES)
        tell(story, clock, now, spent, OTHER)
        clock.note((STEP_END, clock.now(), clock.now()))
        expected.append(spent)
        if k % pieces == 0:
            found += [step.spent for step in clock.read()]
    assert found + [step.spent for step in clock.read()] == expected


@given(parts=st.lists(st.tuples(st.integers(0, len(PHASES) - 1), st.floats(0, 10)), max_size=40))
def test_phases_sum_to_the_step_up_to_rounding(parts: list[tuple[int, float]]) -> None:
    now = Now()
    clock = Clock(now)
    begun = now.seconds
    for phase, seconds in parts:
        clock.enter(phase)
        now.seconds += seconds
        clock.leave()
    assert sum(step(clock)) == pytest.approx(now.seconds - begun, rel=1e-9, abs=1e-9)


def test_every_interval_is_counted_for_its_price() -> None:
    clock = Clock(Now())
    for _ in range(3):
        clock.enter(FORWARD)
        clock.leave()
    clock.own(clock.now())
    step(clock)
    assert clock.num_intervals == 3
    assert clock.entered == {FORWARD}


def test_a_phase_that_is_open_when_a_step_ends_counts_in_the_next_one() -> None:
    now = Now()
    clock = Clock(now)
    clock.enter(FORWARD)
    now.seconds += 2
    clock.note((STEP_END, clock.now(), clock.now()))
    now.seconds += 3
    clock.leave()
    now.seconds += 1
    clock.note((STEP_END, clock.now(), clock.now()))
    first, second = (step.spent for step in clock.read())
    assert (first[FORWARD], first[OTHER]) == (0, 2)
    assert (second[FORWARD], second[OTHER]) == (3, 1)


def test_a_leave_too_many_changes_nothing() -> None:
    now = Now()
    clock = Clock(now)
    clock.leave()
    now.seconds += 1
    assert step(clock)[OTHER] == 1


def test_setup_before_the_first_lap_can_be_forgotten() -> None:
    now = Now()
    clock = Clock(now)
    begin = now()
    now.seconds += 60
    clock.own(begin)
    clock.enter(INPUT)
    now.seconds += 1
    clock.leave()
    assert sum(step(clock)) == 1


def test_what_a_step_brought_is_in_its_lap() -> None:
    now = Now()
    clock = Clock(now)
    for seconds in (2.0, 1.0):
        clock.note((EPOCH, seconds, None))
    for samples in (32, 16):
        clock.enter(DRAW)
        clock.leave()
        clock.note((SAMPLES, samples, None))
    clock.note((LOSS, 0.5, None))
    for _ in range(2):
        clock.enter(STEP)
        clock.leave()
    clock.note((STEP_END, clock.now(), clock.now()))
    clock.note((STEP_END, clock.now(), clock.now()))
    first, second = clock.read()
    assert (first.num_samples, first.losses, first.num_updates, first.start_s) == (48, [0.5], 2, 3.0)
    assert first.epoch_started and not second.epoch_started
    assert (second.num_samples, second.losses, second.num_updates, second.start_s) == (None, [], 0, 0.0)


def validation(clock: Clock, now: Now, *, batches: int) -> None:
    """Two seconds to draw, one to look, half a second of metrics, for each batch."""
    for _ in range(batches):
        clock.enter(DRAW)
        now.seconds += 2
        clock.leave()
        clock.enter(LOOK)
        now.seconds += 1
        clock.leave()
        now.seconds += 0.5


def train(clock: Clock, now: Now) -> None:
    clock.enter(DRAW)
    now.seconds += 4
    clock.leave()
    clock.enter(TRAIN)
    now.seconds += 8
    clock.leave()
    clock.note((STEP_END, clock.now(), clock.now()))


def test_a_validation_between_two_steps_is_told_apart_from_the_next_step() -> None:
    now = Now()
    clock = Clock(now)
    train(clock, now)
    validation(clock, now, batches=3)
    train(clock, now)
    without, with_validation = clock.read()
    assert without.aside is None
    assert with_validation.aside is not None
    of_phase = dict(zip(PHASES, with_validation.aside.spent, strict=True))
    assert {name: s for name, s in of_phase.items() if s} == {"input": 6.0, "forward": 3.0, "other": 1.5}
    assert sum(with_validation.spent) - sum(with_validation.aside.spent) == 12
    assert with_validation.aside is not None and with_validation.aside.at == (without.end, without.end + 3 * 3.5)


def start(clock: Clock, now: Now, *, seconds: float) -> None:
    clock.enter(DRAW)
    now.seconds += seconds
    clock.leave()
    clock.note((EPOCH, seconds, None))


def test_the_start_of_the_held_out_loader_belongs_to_the_validation_and_that_of_the_other_does_not() -> None:
    now = Now()
    clock = Clock(now)
    train(clock, now)
    clock.enter(DRAW)  # the epoch is over, and its workers end
    now.seconds += 32
    clock.leave()
    start(clock, now, seconds=64)
    validation(clock, now, batches=3)
    start(clock, now, seconds=16)
    train(clock, now)
    _, step = clock.read()
    assert step.aside is not None
    assert sum(step.aside.spent) == 64 + 3 * 3.5
    assert sum(step.spent) - sum(step.aside.spent) == 32 + 16 + 12
    assert step.start_s == 16


@pytest.mark.parametrize(
    ("happens", "begins"),
    [
        ("start draw train back", True),
        ("start draw look draw look draw draw train back", False),  # a validation within an epoch
        ("start draw look draw look draw start draw train back", True),
        ("draw start draw look draw train back", False),  # it comes between a batch and its step
        ("start draw look train draw look train draw draw train back", False),  # a loss is in training mode
        ("start start draw draw look train back", True),  # with a teacher
        ("start draw look back", True),  # of a network in evaluation mode
        ("start draw train draw look train back", True),
    ],
)
def test_an_epoch_begins_where_a_loader_is_started_to_be_trained_on(happens: str, begins: bool) -> None:
    now = Now()
    clock = Clock(now)
    kinds = {"draw": DRAW, "look": LOOK, "train": TRAIN, "back": BACKWARD}
    for what in happens.split():
        if what == "start":
            start(clock, now, seconds=1)
            continue
        clock.enter(kinds[what])
        now.seconds += 1
        clock.leave()
    clock.note((STEP_END, clock.now(), clock.now()))
    assert clock.read()[0].epoch_started is begins


def aside_s_of_trained(clock: Clock, now: Now) -> float:
    """Of the step that a forward pass of training ends: what is set aside."""
    clock.enter(TRAIN)
    now.seconds += 8
    clock.leave()
    clock.note((STEP_END, clock.now(), clock.now()))
    (step,) = clock.read()
    assert step.aside is not None
    return sum(step.aside.spent)


def test_a_batch_that_is_looked_at_before_it_is_trained_on_takes_no_start_of_its_loader_along() -> None:
    now = Now()
    clock = Clock(now)
    start(clock, now, seconds=64)
    validation(clock, now, batches=1)
    assert aside_s_of_trained(clock, now) == 3.5


def test_a_look_without_batches_ends_where_training_begins() -> None:
    now = Now()
    clock = Clock(now)
    clock.enter(LOOK)
    now.seconds += 1
    clock.leave()
    now.seconds += 0.25  # prints what it saw
    assert aside_s_of_trained(clock, now) == 1.25
