"""What levers cost once: told from the starts of fresh processes, believed where they agree."""

import random
from dataclasses import replace

import pytest

from hotlap.experiment import Arm, Effect
from hotlap.experiment.total import one_time_s
from hotlap.record import Run, Status


def process(*, first_s: float, warmup: int, step_s: float) -> Run:
    return Run(status=Status.COMPLETE, first_steps_s=(first_s, *[step_s] * (warmup - 1)), step_s=(step_s,) * 100)


def started(start_s: float) -> Run:
    """A process whose start takes so much longer than its steps."""
    return process(first_s=start_s + 0.010, warmup=1, step_s=0.010)


def cost_s(base: Run, run: Run) -> float | None:
    """What two processes of each, all alike, tell."""
    return one_time_s([(base, run)] * 2)


def test_the_start_of_the_process_is_no_cost_of_the_lever() -> None:
    base = process(first_s=3.0, warmup=20, step_s=0.010)
    assert cost_s(base, process(first_s=3.0, warmup=20, step_s=0.010)) is None
    # Compiling: the first step takes 12 s longer.
    assert cost_s(base, process(first_s=15.0, warmup=20, step_s=0.005)) == pytest.approx(12.0, abs=0.01)


def test_filling_a_cache_costs_its_slow_steps() -> None:
    base = process(first_s=0.1, warmup=20, step_s=0.010)
    filling = Run(status=Status.COMPLETE, first_steps_s=(0.1, *[0.012] * 99), step_s=(0.002,) * 100)
    cost = cost_s(base, filling)
    assert cost == pytest.approx(99 * 0.010, abs=0.02)
    # After 100 slow steps it is 99 * 2 ms behind, and from then on gains 8 ms a step.
    assert Effect(Arm(), runs=[(base, filling)] * 2).break_even_step == pytest.approx(124, abs=3)


def test_the_start_of_an_epoch_is_no_typical_step() -> None:
    base, other = process(first_s=3.0, warmup=20, step_s=0.010), process(first_s=15.0, warmup=20, step_s=0.001)
    begins = replace(other, step_s=(0.5, *other.step_s[1:]), epoch_starts=(0,), step_index=tuple(range(20, 120)))
    assert cost_s(base, begins) == pytest.approx(12.0, abs=0.2)
    assert Effect(Arm(), runs=[(base, begins)] * 2).break_even_step == pytest.approx(12.0 / 0.009, rel=0.02)


def test_one_disturbed_pair_does_not_say_when_a_cost_is_paid_back() -> None:
    base, other = (
        process(first_s=first_s, warmup=20, step_s=step_s) for first_s, step_s in ((3.0, 0.010), (15.0, 0.005))
    )
    disturbed = process(first_s=15.0, warmup=20, step_s=0.0099)
    runs = [(base, other), (base, other), (base, disturbed)]
    assert Effect(Arm(), runs=runs).break_even_step == Effect(Arm(), runs=runs[:2]).break_even_step


def test_what_starts_vary_by_is_no_cost() -> None:
    base = process(first_s=3.0, warmup=20, step_s=0.010)
    assert cost_s(base, process(first_s=3.2, warmup=20, step_s=0.010)) is None
    assert cost_s(base, process(first_s=2.5, warmup=20, step_s=0.010)) is None


def test_without_steps_nothing_is_said() -> None:
    base = process(first_s=1.0, warmup=20, step_s=0.010)
    assert cost_s(base, Run(status=Status.CRASHED)) is None
    assert Effect(Arm(), runs=[(base, process(first_s=1.0, warmup=20, step_s=0.005))]).break_even_step is None


@pytest.mark.parametrize(
    ("bases", "starts", "believed"),
    [
        ([], [], None),
        ([1.0], [13.0], None),
        ([1.0, 1.0], [13.0, 14.0], 12.5),
        # What the first process compiled the others find in a cache.
        ([1.0, 1.0, 1.0], [13.0, 4.0, 4.5], 3.5),
        # The base waited while the other compiled; once it did not.
        ([3.2, 1.1, 2.9], [5.6, 3.6, 4.1], 3.0),
        ([1.0, 1.1], [1.2, 1.9], None),
        ([1.0, 0.9, 1.2], [0.9, 1.2, 1.1], None),
    ],
)
def test_a_cost_is_believed_where_processes_agree(
    bases: list[float], starts: list[float], believed: float | None
) -> None:
    pairs = [(started(base), started(start)) for base, start in zip(bases, starts, strict=True)]
    assert one_time_s(pairs) == (None if believed is None else pytest.approx(believed))


def test_starts_that_vary_alike_seldom_seem_to_cost() -> None:
    rng = random.Random(0)
    seen = sum(
        one_time_s([(started(rng.gauss(3.0, 0.3)), started(rng.gauss(3.0, 0.3))) for _ in range(n)]) is not None
        for n in (2, 3, 4, 5)
        for _ in range(500)
    )
    assert seen / 2000 < 0.1
