"""Step times at several numbers of threads -> the best number, and what is said of them."""

from dataclasses import replace

import pytest

from hotlap.machine import threads
from hotlap.machine.figures import median_interval
from hotlap.record import CpuUse, Machine, Run, Status, ThreadTime
from tests.unit.machine.made_up import MACHINE


def cores(logical: int, *, usable: float | None = None, physical: int | None = None) -> Machine:
    return replace(MACHINE, num_cores=logical, usable_cores=usable or logical, physical_cores=physical)


SIXTEEN = cores(16, physical=16)


def times(step_s: dict[int, float], *, error: float = 0.0) -> list[ThreadTime]:
    """Each known within `error` of itself."""
    return [
        ThreadTime(threads=count, step_s=median_interval([(1 - error) * mid, mid, (1 + error) * mid]))
        for count, mid in step_s.items()
    ]


def test_more_threads_that_are_as_fast_are_not_better() -> None:
    flat = {1: 0.1, 4: 0.0302, 8: 0.03}
    assert threads.best_of(times(flat)).threads == 4
    assert threads.explain(times(flat), SIXTEEN).why.startswith("4 threads are best")


def test_what_is_not_known_better_counts_as_fast_up_to_a_twentieth() -> None:
    near = {4: 0.0312, 8: 0.03}
    assert threads.best_of(times(near)).threads == 8
    assert threads.best_of(times(near, error=0.2)).threads == 4
    assert threads.best_of(times({4: 0.033, 8: 0.03}, error=0.2)).threads == 8


def test_one_sentence_says_what_is_busy_what_threads_bring_and_which_number_is_best() -> None:
    """F0: six fast cores, four slow ones, 16 hyper-threads; torch starts ten threads."""
    i5 = cores(16, physical=10)
    step_s = {1: 0.1, 2: 0.05, 6: 0.019, 8: 0.017, 10: 0.016, 16: 0.0165}
    sweep = threads.explain(times(step_s), i5, default_threads=10)
    assert sweep.why == (
        "10 threads are best, at 16.0 ms a step; a step with 10 is 6.25x (6.25-6.25x) as fast as with 1, 62% of what "
        "equal cores without waiting would bring; 10 threads can keep 62% of 16 logical processors busy at most."
    )


def test_a_better_number_than_the_usual_one_is_told_with_its_gain() -> None:
    sweep = threads.explain(times({1: 0.01, 2: 0.016}), cores(2, physical=2))
    assert sweep.why.startswith("1 thread is best, at 10.0 ms a step, 1.60x (1.60-1.60x) as fast as 2")
    assert sweep.fewer == "With 1 thread instead of 2, a step is 1.60x (1.60-1.60x) as fast."


def test_a_ratio_is_told_with_the_range_that_both_intervals_leave() -> None:
    two = cores(2, physical=2)
    sweep = threads.explain(times({1: 0.01, 2: 0.02}, error=0.1), two)
    assert "2.00x (1.64-2.44x) as fast as 2" in sweep.why
    assert "2.00x (1.64-2.44x)" in sweep.fewer
    unsure = threads.explain(times({1: 0.01, 2: 0.012}, error=0.1), two)
    assert "1.20x (0.98-1.47x) as fast as 2" in unsure.why
    assert unsure.fewer == "", "the two may be alike"
    assert threads.explain(times({1: 0.02, 2: 0.01}, error=0.1), two).fewer == "", "more are faster"


def test_doubt_stands_beside_a_gain_by_fewer_threads_only() -> None:
    two = cores(2, physical=2)
    for step_s, doubted in (({1: 0.01, 2: 0.32}, True), ({1: 0.02, 2: 0.01}, False)):
        sweep = threads.explain(times(step_s), two, doubt="It was busy.")
        assert sweep.why.endswith("It was busy.") == doubted
        assert sweep.fewer.endswith("It was busy.") == doubted


@pytest.mark.parametrize(
    ("num_threads", "main", "says"), [(2, 0.6, True), (2, 1.9, False), (1, 0.6, False), (None, 0.6, False)]
)
def test_that_others_used_the_cores_is_said_of_more_than_one_thread(
    num_threads: int | None, main: float, says: bool
) -> None:
    use = CpuUse(usable_cores=2.0, main=main, others=0.0, runnable=2.0)
    told = threads.crowded(Run(status=Status.COMPLETE, num_threads=num_threads, cpu=use), "fewer")
    assert (told is not None) == says
    if told is not None:
        assert told.startswith("Other programs used the cores: training had one for 30% of the time")
        assert "2 threads that wait for each other are slow then, and fewer may save that alone" in told


def test_one_number_of_threads_is_best_and_none_says_nothing() -> None:
    alone = threads.explain(times({4: 0.1}), SIXTEEN)
    assert alone.why == (
        "4 threads are best, at 100 ms a step; 4 threads can keep 25% of 16 logical processors busy at most."
    )
    assert threads.explain([], SIXTEEN).why == ""


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (cores(2, physical=2), (1, 2)),
        (cores(16, physical=10), (1, 2, 3, 4, 6, 8, 10, 12, 16)),
        (cores(64, usable=1), (1,)),
        (cores(8, usable=2.5), (1, 2, 3)),
        (cores(8, usable=0.5), (1,)),
    ],
)
def test_the_numbers_worth_timing(machine: Machine, expected: tuple[int, ...]) -> None:
    assert threads.counts(machine) == expected
