"""What levers cost once: told from the starts of fresh processes, believed where they agree."""

import pytest

from hotlap.record import Run, Status
from hotlap.tune.one_time import agreed_s, break_even_step, one_time_s, too_late


def process(*, first_s: float, warmup: int, step_s: float) -> Run:
    return Run(status=Status.COMPLETE, first_steps_s=(first_s, *[step_s] * (warmup - 1)), step_s=(step_s,) * 100)


def test_the_start_of_the_process_is_no_cost_of_the_lever() -> None:
    base = process(first_s=3.0, warmup=20, step_s=0.010)
    assert one_time_s(base, process(first_s=3.0, warmup=20, step_s=0.010)) == pytest.approx(0.0)
    # Compiling: the first step takes 12 s longer.
    assert one_time_s(base, process(first_s=15.0, warmup=20, step_s=0.005)) == pytest.approx(12.0, abs=0.01)


def test_filling_a_cache_costs_its_slow_steps() -> None:
    base = process(first_s=1.0, warmup=20, step_s=0.010)
    filling = Run(status=Status.COMPLETE, first_steps_s=(1.0, *[0.012] * 99), step_s=(0.002,) * 100)
    cost = one_time_s(base, filling)
    assert cost == pytest.approx(99 * 0.010, abs=0.02)
    # After 100 slow steps it is 99 * 2 ms behind, and from then on gains 8 ms a step.
    assert break_even_step(cost, base, filling) == pytest.approx(124, abs=3)


def test_without_steps_nothing_is_said() -> None:
    base = process(first_s=1.0, warmup=20, step_s=0.010)
    assert one_time_s(base, Run(status=Status.CRASHED)) is None
    assert break_even_step(1.0, base, Run(status=Status.CRASHED)) is None
    assert break_even_step(None, base, base) is None


@pytest.mark.parametrize(
    ("costs", "believed"),
    [
        ([], None),
        ([12.0], None),
        ([12.0, 13.0], 12.5),
        ([0.1, 0.9], None),
        ([-0.3, 0.2, 0.1], None),
    ],
)
def test_a_cost_is_believed_where_processes_agree(costs: list[float], believed: float | None) -> None:
    assert agreed_s(costs) == (None if believed is None else pytest.approx(believed))


def test_a_cost_comes_too_late_only_in_a_training_whose_length_is_known() -> None:
    assert too_late(100, None) is None
    assert too_late(None, 10) is None
    assert too_late(100, 100) is None
    assert "step 1,200" in (too_late(1200, 900) or "")
    assert "900 steps" in (too_late(1200, 900) or "")
