"""Each moment of a step belongs to exactly one phase, however events nest: under a clock that the test moves."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotlap.probe.clock import FORWARD, INPUT, OTHER, PHASES, Clock


@dataclass
class Now:
    """A clock that moves when told."""

    seconds: float = 100.0

    def __call__(self) -> float:
        return self.seconds


# (what happens, phase, time that passes before it). Whole numbers, so that sums are exact.
Event = tuple[str, int, int]
events = st.lists(
    st.tuples(
        st.sampled_from(["enter", "enter", "leave", "leave", "lap", "pause", "own"]),
        st.integers(0, len(PHASES) - 1),
        st.integers(0, 1000),
    ),
    max_size=60,
)


class Model:
    """What the clock must say, told in the simplest way: one second after the other."""

    def __init__(self) -> None:
        self.stack: list[int] = []
        self.spent = [0.0] * len(PHASES)

    def passes(self, seconds: float) -> None:
        self.spent[self.stack[-1] if self.stack else OTHER] += seconds

    def lap(self) -> list[float]:
        spent, self.spent = self.spent, [0.0] * len(PHASES)
        return spent


@given(story=events)
@settings(deadline=None)
def test_time_goes_to_the_innermost_phase_and_laps_sum_to_the_wall(story: Sequence[Event]) -> None:
    now = Now()
    clock, model = Clock(now), Model()
    since_lap = 0.0
    for what, phase, passed in story:
        now.seconds += passed
        since_lap += passed
        model.passes(passed)
        if what == "enter":
            clock.enter(phase)
            model.stack.append(phase)
        elif what == "leave":
            clock.leave()
            model.stack = model.stack[:-1]
        elif what == "lap":
            spent = clock.lap()
            assert sum(spent) == since_lap
            assert spent == model.lap()
            since_lap = 0.0
        elif what == "pause":
            clock.pause()
        else:
            clock.pause()
            now.seconds += 7.0  # hotlap's own work, which no phase may pay for
            clock.restart()
    assert clock.lap() == model.lap()


@given(parts=st.lists(st.tuples(st.integers(0, len(PHASES) - 1), st.floats(0, 10)), max_size=40))
@settings(deadline=None)
def test_phases_sum_to_the_step_up_to_rounding(parts: list[tuple[int, float]]) -> None:
    now = Now()
    clock = Clock(now)
    begun = now.seconds
    for phase, seconds in parts:
        clock.enter(phase)
        now.seconds += seconds
        clock.leave()
    assert sum(clock.lap()) == pytest.approx(now.seconds - begun, rel=1e-9, abs=1e-9)


@given(story=events)
@settings(deadline=None)
def test_every_enter_and_leave_is_counted(story: Sequence[Event]) -> None:
    clock = Clock(Now())
    for what, phase, _ in story:
        if what == "enter":
            clock.enter(phase)
        elif what == "leave":
            clock.leave()
    assert clock.num_events == sum(what in ("enter", "leave") for what, _, _ in story)


def test_a_step_that_ends_within_a_phase_goes_on_in_it() -> None:
    # The optimizer's step ends the training step from inside: the rest of that call belongs to the next one.
    now = Now()
    clock = Clock(now)
    clock.enter(FORWARD)
    now.seconds += 2
    assert clock.lap()[FORWARD] == 2
    now.seconds += 3
    clock.leave()
    now.seconds += 1
    spent = clock.lap()
    assert (spent[FORWARD], spent[OTHER]) == (3, 1)


def test_a_leave_too_many_goes_back_to_other() -> None:
    now = Now()
    clock = Clock(now)
    clock.leave()
    now.seconds += 1
    assert clock.lap()[OTHER] == 1


def test_setup_before_the_first_lap_can_be_forgotten() -> None:
    now = Now()
    clock = Clock(now)
    now.seconds += 60
    clock.restart()
    clock.enter(INPUT)
    now.seconds += 1
    clock.leave()
    assert sum(clock.lap()) == 1
