"""Step times at several numbers of threads, made by a known law with noise -> the law, the best number, the reason."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotlap.machine import threads
from hotlap.machine.figures import median_interval
from hotlap.record import Cores, Scaling, ThreadTime

SIXTEEN = Cores(logical=16, allowed=16, physical=16, fast=16)
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16)
AMDAHL = Scaling(serial_s=0.020, parallel_s=0.080)
MEMORY = Scaling(serial_s=0.005, parallel_s=0.035, memory_s=0.060, memory_threads=3.0)
WAKING = Scaling(serial_s=0.010, parallel_s=0.020, waking_s=0.003)
LAWS = {"amdahl": AMDAHL, "memory": MEMORY, "waking": WAKING}


def times(law: Scaling, counts: Sequence[int] = COUNTS, *, noise: float = 0.01, seed: int = 0) -> list[ThreadTime]:
    generator = random.Random(seed)
    return [
        ThreadTime(
            threads=count,
            step_s=median_interval([threads.predict(law, count) * (1 + generator.gauss(0, noise)) for _ in range(8)]),
        )
        for count in counts
    ]


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("seed", range(5))
def test_the_parts_of_a_step_come_out_of_its_times(name: str, seed: int) -> None:
    law = LAWS[name]
    found = threads.fit(times(law, seed=seed))
    assert found is not None
    whole_s = threads.predict(law, 1)
    assert found.serial_s == pytest.approx(law.serial_s, abs=0.04 * whole_s)
    assert found.parallel_s == pytest.approx(law.parallel_s, abs=0.06 * whole_s)
    assert found.memory_s == pytest.approx(law.memory_s, abs=0.06 * whole_s)
    assert found.waking_s == pytest.approx(law.waking_s, abs=0.0004)
    assert found.error < 0.05


def test_no_part_is_made_of_noise() -> None:
    found = [threads.fit(times(AMDAHL, noise=0.03, seed=seed)) for seed in range(40)]
    assert sum(one is not None and one.memory_s > 0.003 for one in found) <= 2
    assert sum(one is not None and one.waking_s > 0.0003 for one in found) <= 2


def test_two_numbers_of_threads_tell_serial_from_parallel() -> None:
    found = threads.fit(times(AMDAHL, (1, 2)))
    assert found is not None
    assert found.serial_s == pytest.approx(0.020, abs=0.003)
    assert found.memory_s == 0.0


def test_a_step_that_only_gets_slower_is_explained_by_waking() -> None:
    found = threads.fit(times(Scaling(serial_s=0.001, parallel_s=0.0, waking_s=0.0005), (1, 2)))
    assert found is not None
    assert found.waking_s == pytest.approx(0.0005, rel=0.1)


def test_one_number_of_threads_tells_nothing() -> None:
    assert threads.fit(times(AMDAHL, (4,))) is None
    sweep = threads.explain(times(AMDAHL, (4,)), SIXTEEN)
    assert sweep.best_threads == 4
    assert sweep.scaling is None and sweep.busy is None


def test_without_any_time_nothing_is_best() -> None:
    assert threads.explain([], SIXTEEN).best_threads is None


@given(
    st.floats(0, 0.1),
    st.floats(0.001, 0.1),
    st.floats(0, 0.1),
    st.floats(1.5, 12),
    st.floats(0, 0.003),
    st.integers(0, 99),
)
@settings(max_examples=50)
def test_parts_are_never_negative_and_the_model_is_near_what_was_measured(
    serial_s: float, parallel_s: float, memory_s: float, knee: float, waking_s: float, seed: int
) -> None:
    law = Scaling(serial_s=serial_s, parallel_s=parallel_s, memory_s=memory_s, memory_threads=knee, waking_s=waking_s)
    found = threads.fit(times(law, noise=0.005, seed=seed))
    assert found is not None
    assert min(found.serial_s, found.parallel_s, found.memory_s, found.waking_s) >= 0
    assert found.error < 0.12


def test_more_threads_that_are_as_fast_are_not_better() -> None:
    flat = [ThreadTime(threads=n, step_s=median_interval([s] * 8)) for n, s in ((1, 0.1), (4, 0.0302), (8, 0.03))]
    assert threads.best_of(flat).threads == 4


def test_the_best_number_is_in_the_valley() -> None:
    best = threads.explain(times(WAKING), SIXTEEN).best_threads
    assert best in (2, 3)


def test_why_the_processors_of_an_i5_are_60_percent_busy() -> None:
    """F0: six fast cores, four slow ones, 16 hyper-threads; torch starts ten threads."""
    i5 = Cores(logical=16, allowed=16, physical=10, fast=6)
    law = Scaling(serial_s=0.002, parallel_s=0.098)
    measured = times(law, (1, 2, 3, 4, 6), noise=0.002)
    # The slow cores bring little, and second hyper-threads nothing.
    measured += [
        ThreadTime(threads=n, step_s=median_interval([s] * 8)) for n, s in ((8, 0.0170), (10, 0.0160), (16, 0.0165))
    ]
    sweep = threads.explain(measured, i5, default_threads=10)
    assert sweep.busy == pytest.approx((0.002 + 10 * 0.014) / (0.016 * 16), rel=0.03)
    assert "With 10 threads on 16 logical processors a monitor shows about 55% busy" in sweep.why
    assert "no more than 62% can be" in sweep.why
    assert "runs on one thread while the others wait" in sweep.why
    assert sweep.why.count(".  ") == 0 and sweep.why.endswith(".")
    assert any("on slower cores" in note for note in sweep.notes)
    assert any("two on a core" in note for note in sweep.notes)


def test_memory_that_is_exhausted_is_named() -> None:
    sweep = threads.explain(times(MEMORY), SIXTEEN, default_threads=16)
    assert "bound by memory, which about 3 threads exhaust" in sweep.why


def test_few_numbers_of_threads_do_not_tell_memory_from_waking() -> None:
    sweep = threads.explain(times(MEMORY, (1, 2, 4, 8)), SIXTEEN, default_threads=8)
    assert "sharing the memory's bandwidth" in sweep.why


def test_times_that_follow_no_law_get_no_reason() -> None:
    zigzag = [ThreadTime(threads=n, step_s=median_interval([0.1 if n in (1, 3, 8) else 0.02] * 8)) for n in COUNTS]
    sweep = threads.explain(zigzag, SIXTEEN)
    assert sweep.scaling is None and sweep.busy is None
    assert any("No simple law" in note for note in sweep.notes)


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        (Cores(logical=2, allowed=2, physical=2, fast=2), (1, 2)),
        (Cores(logical=16, allowed=16, physical=10, fast=6), (1, 2, 3, 4, 6, 8, 10, 12, 16)),
        (Cores(logical=64, allowed=1), (1,)),
        (Cores(logical=8, allowed=8, quota=2.5), (1, 2, 3)),
        (Cores(logical=8, allowed=8, quota=0.5), (1,)),
    ],
)
def test_the_numbers_worth_timing(cores: Cores, expected: tuple[int, ...]) -> None:
    assert threads.counts(cores) == expected
