"""Unequal work told apart from a slow process, by how compute grows with what the model was given."""

import random
from collections.abc import Sequence

import pytest

from hotlap.launch.ranks import Step, unequal_work


def steps(work: Sequence[float], *, unit_s: float = 1e-5, more_s: float = 0.001) -> list[Step]:
    """Compute is proportional to the work, and something more."""
    return [Step(one, unit_s * one + more_s) for one in work]


def test_a_process_with_twice_the_work_is_what_the_others_wait_for() -> None:
    found = unequal_work({0: steps([100.0] * 20), 1: steps([200.0] * 20)})
    assert found is not None
    assert found.cost_s == pytest.approx(0.0005), "half of the difference: the work is shared, not dropped"
    assert found.most == pytest.approx(4 / 3)
    assert found.work == {0: 100.0, 1: 200.0}
    assert found.extra_s == {0: pytest.approx(-0.0005), 1: pytest.approx(0.0005)}


def test_work_that_differs_from_step_to_step_costs_although_the_means_are_equal() -> None:
    found = unequal_work({0: steps([100.0, 300.0] * 20), 1: steps([300.0, 100.0] * 20)})
    assert found is not None
    assert found.cost_s == pytest.approx(0.001)
    assert found.most == pytest.approx(1.5)
    assert found.extra_s == {0: pytest.approx(0.0), 1: pytest.approx(0.0)}


def test_lengths_drawn_at_random_and_stalls_of_a_second_leave_the_price_of_a_unit_as_it_is() -> None:
    drawn = random.Random(0)
    works = {rank: [float(drawn.randrange(100, 1000)) for _ in range(50)] for rank in range(4)}
    calm = unequal_work({rank: steps(work) for rank, work in works.items()})
    stalled = unequal_work(
        {r: [Step(s.work, s.compute_s + (at % 17 == 0)) for at, s in enumerate(steps(w))] for r, w in works.items()}
    )
    assert calm is not None
    assert stalled is not None
    assert stalled.cost_s == pytest.approx(calm.cost_s, rel=0.25)


def test_a_slow_process_with_the_same_work_has_no_unequal_work() -> None:
    assert unequal_work({0: steps([100.0] * 20), 1: steps([100.0] * 20, more_s=0.1)}) is None


def test_steps_that_differ_alike_on_all_processes_are_equal_work() -> None:
    assert unequal_work({0: steps([100.0, 300.0] * 20), 1: steps([100.0, 300.0] * 20)}) is None


def test_a_little_more_work_does_not_explain_a_process_that_is_many_times_slower() -> None:
    found = unequal_work({0: steps([100.0] * 20), 1: steps([101.0] * 20, more_s=0.1)})
    assert found is not None
    assert found.cost_s < 0.002, "at most as steep as the square of the work"


@pytest.mark.parametrize(
    "given", [{}, {0: steps([1.0] * 9)}, {0: [], 1: []}, {0: steps([0.0] * 9), 1: steps([5.0] * 9)}]
)
def test_nothing_is_said_without_counts_of_several_processes(given: dict[int, list[Step]]) -> None:
    assert unequal_work(given) is None


def test_one_odd_step_is_no_slope() -> None:
    assert unequal_work({0: steps([100.0] * 20), 1: steps([100.0] * 19 + [900.0])}) is None
