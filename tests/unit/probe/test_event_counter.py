"""What calls at a line cost a step."""

import pytest

from hotlap.probe.event_counter import EventCounter, Spot
from hotlap.record import SightingKind

AT = Spot("train.py", 3)


def cost_s(*steps: list[float]) -> float | None:
    """Of calls that took so long, step by step."""
    event_counter = EventCounter()
    for calls in steps:
        for seconds in calls:
            event_counter.add(SightingKind.SYNC, "Tensor.item", AT, cost_s=seconds)
        event_counter.end_step()
    (found,) = event_counter.sightings()
    assert found.per_step == pytest.approx(sum(map(len, steps)) / len(steps))
    return found.cost_s


def test_one_call_that_was_held_up_does_not_make_the_others_dear() -> None:
    assert cost_s([2e-3], [3e-5], [3e-5], [4e-5], [3e-5]) == pytest.approx(3e-5)


def test_calls_of_a_step_add_up_whatever_their_sizes() -> None:
    assert cost_s([2e-4, 1e-5, 1e-5], [2e-4, 1e-5, 1e-5], [2e-4, 1e-5, 1e-5]) == pytest.approx(2.2e-4)


def test_what_few_steps_do_is_shared_out_among_all() -> None:
    assert cost_s([], [8e-3], [], []) == pytest.approx(2e-3)


def test_a_step_that_is_forgotten_was_never_made() -> None:
    event_counter = EventCounter()
    for forgotten in (False, True, False):
        for spot in (AT, Spot("train.py", 9)) if forgotten else (AT,):
            event_counter.add(SightingKind.SYNC, "Tensor.item", spot, cost_s=50.0 if forgotten else 1.0, num_bytes=4)
        event_counter.end_step(counts=not forgotten)
    event_counter.add(SightingKind.SYNC, "Tensor.item", AT)  # of a step that is not over
    (found,) = event_counter.sightings()
    assert (found.line, found.per_step, found.cost_s, found.num_bytes) == (3, 1.0, 1.0, 4)
