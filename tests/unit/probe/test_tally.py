"""What calls at a line cost a step."""

import pytest

from hotlap.probe.tally import Spot, Tally
from hotlap.record import SightingKind

AT = Spot("train.py", 3)


def cost_s(*steps: list[float]) -> float | None:
    """Of calls that took so long, step by step."""
    tally = Tally()
    for tally.step, calls in enumerate(steps):
        for seconds in calls:
            tally.add(SightingKind.SYNC, "Tensor.item", AT, cost_s=seconds)
    tally.step = len(steps)
    (found,) = tally.sightings()
    assert found.per_step == pytest.approx(sum(map(len, steps)) / len(steps))
    return found.cost_s


def test_one_call_that_was_held_up_does_not_make_the_others_dear() -> None:
    assert cost_s([2e-3], [3e-5], [3e-5], [4e-5], [3e-5]) == pytest.approx(3e-5)


def test_calls_of_a_step_add_up_whatever_their_sizes() -> None:
    assert cost_s([2e-4, 1e-5, 1e-5], [2e-4, 1e-5, 1e-5], [2e-4, 1e-5, 1e-5]) == pytest.approx(2.2e-4)


def test_what_few_steps_do_is_shared_out_among_all() -> None:
    assert cost_s([], [8e-3], [], []) == pytest.approx(2e-3)
