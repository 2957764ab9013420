"""Any number of steps in bounded room: what is kept is right, and it is little."""

import random
import statistics
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from hotlap.probe.clock import FORWARD, INPUT, OPTIMIZER, OTHER, PHASES, StepSpans, Stretch
from hotlap.probe.ledger import Ledger, Thinning
from hotlap.probe.losses import OnDevice
from hotlap.record import LongRun, Phase, Run, Status, encode

MEASURED = frozenset({INPUT, FORWARD, OPTIMIZER})


def row(
    step: int, *, forward_s: float = 0.001, input_s: float = 0.0005, loss: float = 1.0, aside_s: float = 0
) -> StepSpans:
    spent = [0.0] * len(PHASES)
    spent[FORWARD], spent[INPUT], spent[OTHER] = forward_s, input_s, 1e-5 + aside_s
    away = None
    if aside_s:
        away = Stretch([0.0] * len(PHASES), num_looks=10, num_samples=0)
        away.spent[OTHER] = aside_s
    return StepSpans(
        spent=spent, aside=away, block=step // 11, number=step, losses=[loss], num_samples=16, num_updates=1,
        epoch_started=step % 1000 == 0,
    )  # fmt: skip


def ledger_of(rows: Iterator[StepSpans]) -> Ledger:
    ledger = Ledger(Thinning())
    for one in rows:
        ledger.add(one)
    return ledger


def run_of(ledger: Ledger) -> Run:
    return Run(status=Status.ENDED, **ledger.columns(measured=MEASURED))


def long_of(rows: Iterator[StepSpans]) -> tuple[Run, LongRun]:
    run = run_of(ledger_of(rows))
    assert run.long is not None
    return run, run.long


def test_a_run_that_is_short_is_kept_whole() -> None:
    run, long = long_of(row(step) for step in range(1000))
    assert run.step_index == tuple(range(1000))
    assert run.epoch_starts == (0,)
    assert long.num_steps == 1000
    assert long.total_s == pytest.approx(sum(run.step_s))


@pytest.mark.parametrize("ledger", [Ledger(), Ledger(Thinning())])
def test_phases_have_the_means_that_the_recorded_steps_show(ledger: Ledger) -> None:
    assert ledger.phase_s() == [0.0] * len(PHASES)
    for step in range(1000):
        ledger.add(row(step, forward_s=0.001 * (1 + step % 3), aside_s=5.0 if step == 500 else 0.0))
    run = run_of(ledger)
    told = dict(zip(PHASES, ledger.phase_s(), strict=True))
    assert {phase: run.mean_phase_s(Phase(phase)) or 0.0 for phase in PHASES} == pytest.approx(told)


@pytest.mark.parametrize("num_steps", [4_095, 4_097, 9_000, 50_000])
def test_every_step_counts_once(num_steps: int) -> None:
    _, long = long_of(row(step) for step in range(20, 20 + num_steps))
    assert long.num_steps == num_steps
    assert long.total_s == pytest.approx(num_steps * 0.00151)


def test_the_sample_is_of_whole_blocks_from_all_over_the_run() -> None:
    run, _ = long_of(row(step) for step in range(200_000))
    assert 2_000 <= len(run.step_index) <= 4_200
    assert list(run.step_index) == sorted(set(run.step_index))
    breaks = sum(b - a > 1 for a, b in zip(run.step_index, run.step_index[1:], strict=False))
    assert breaks < len(run.step_index) / 20
    in_tenth = [sum(step // 20_000 == tenth for step in run.step_index) for tenth in range(10)]
    assert min(in_tenth) > 100


def test_the_longest_step_is_kept_also_where_the_sample_lacks_it() -> None:
    _, long = long_of(row(step, input_s=0.5 + step * 1e-6 if step % 7_001 == 5 else 0.0005) for step in range(30_000))
    assert long.longest_s == pytest.approx(0.00101 + 0.5 + 28_009e-6)


def test_validations_are_no_part_of_steps() -> None:
    run, long = long_of(row(step, aside_s=2.0 if step % 500 == 499 else 0.0) for step in range(5_000))
    assert run.num_validations == 10
    assert run.validation_s == pytest.approx(20.0)
    assert long.longest_s < 0.01


def test_a_validation_of_few_passes_is_known_by_batches_that_are_only_looked_at() -> None:
    """Beside a teacher, which has passes without training in each step."""
    ledger = Ledger()
    for step in range(200):
        away = Stretch([0.0] * len(PHASES), num_looks=2, num_samples=0)
        one = replace(row(step), aside=away)
        if step % 20 == 19:
            one = replace(one, aside=away._replace(num_looks=4, num_samples=320), num_samples=336)
        ledger.add(one)
    run = run_of(ledger)
    assert run.num_validations == 10
    assert set(run.num_samples) == {16}


def test_a_record_can_be_made_at_any_time_and_changes_nothing() -> None:
    often, once = Ledger(Thinning()), Ledger(Thinning())
    draw = random.Random(3)
    for step in range(20_000):
        one = row(step, forward_s=0.001 * draw.lognormvariate(0, 0.3))
        often.add(one)
        once.add(one)
        if step % 3_333 == 0:
            run_of(often)
    first, second = run_of(often), run_of(once)
    assert first.step_index == second.step_index
    assert first.long is not None and second.long is not None
    assert first.long.total_s == pytest.approx(second.long.total_s)


def test_a_device_that_has_failed_takes_its_losses_along_and_no_step() -> None:
    unreadable = OnDevice(torch.zeros((), device="meta"), 0)
    run, long = long_of(replace(row(step), losses=[unreadable] if step == 300 else [1.0]) for step in range(1000))
    assert long.num_steps == 1000
    assert run.loss[10] == 1.0


def test_the_sample_stands_for_the_run() -> None:
    draw = random.Random(7)
    times = [0.001 * draw.lognormvariate(0, 0.5) for _ in range(100_000)]
    run, _ = long_of(row(step, forward_s=times[step]) for step in range(100_000))
    assert statistics.fmean(run.phase_s[Phase.FORWARD] or ()) == pytest.approx(statistics.fmean(times), rel=0.05)
    assert run.median_step_s() == pytest.approx(statistics.median(times) + 0.00051, rel=0.05)


def memory_of(num_steps: int) -> tuple[int, int]:
    """Most bytes that were allocated while so many steps were taken up, and the size of the record."""
    draw = random.Random(0)
    noise = [draw.lognormvariate(0, 0.4) for _ in range(4096)]
    tracemalloc.start()
    ledger = Ledger(Thinning())
    for step in range(num_steps):
        ledger.add(row(step, forward_s=0.001 * noise[step % 4093] * (1 + step / num_steps), loss=noise[step % 4091]))
    size = len(encode(run_of(ledger)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, size


def test_memory_and_record_stop_growing() -> None:
    # 100,000 steps fill all that is bounded (5 MB, 0.5 MB); `benchmarks/long_run.py` does the same with ten million.
    peak, size = memory_of(100_000)
    assert peak < 20e6
    assert size < 2e6
