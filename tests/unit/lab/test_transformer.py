"""transformer: utilisation, levers, and the GPUs that were asked for."""

from dataclasses import replace
from typing import Any

import pytest

from hotlap import rules
from hotlap.lab import transformer
from hotlap.lab.result import Quantity, Result, Table
from hotlap.lab.settings import Settings
from hotlap.levers import Numerics
from hotlap.machine import threads
from hotlap.record import Cores, Interval, Phase, Run, Sighting, SightingKind, ThreadTime
from tests.sample_runs import machine, run_with
from tests.unit.lab import samples

CORES = Cores(logical=16, allowed=16, physical=10, fast=10)


def run_of_the_model() -> Run:
    seen = Sighting(
        kind=SightingKind.ATTENTION_OVER_BATCH,
        what="TransformerEncoder",
        path="transformer.py",
        line=1,
        per_step=1,
        detail={"length": 8},
    )
    phases = {Phase.FORWARD: 0.2, Phase.BACKWARD: 0.4, Phase.OPTIMIZER: 0.2}
    return replace(run_with(phases=phases, num_steps=20), sightings=(seen,))


def sweep() -> Any:
    """A fifth of the step runs on one thread."""
    times = [0.2 + 0.8 / n for n in (1, 2, 4, 8)]
    return threads.explain(
        [
            ThreadTime(threads=n, step_s=Interval(low=t * 0.99, mid=t, high=t * 1.01))
            for n, t in zip((1, 2, 4, 8), times, strict=True)
        ],
        CORES,
        default_threads=8,
    )


def known() -> transformer.Known:
    found = run_of_the_model()
    return transformer.Known(
        run=found,
        work=samples.workload(num_operators=2000, flop=1e8),
        here=machine(),
        sweep=sweep(),
        tried=(
            transformer.Tried(
                name="fused-optimizer",
                speedup=Interval(low=1.1, mid=1.2, high=1.3),
                numerics=Numerics.ROUNDING,
                num_processes=3,
            ),
            transformer.Tried(
                name="zero-grad-none",
                speedup=Interval(low=0.97, mid=1.0, high=1.03),
                numerics=Numerics.EXACT,
                num_processes=3,
            ),
        ),
        refused=(("bf16-autocast", "This processor has no bfloat16 instructions."),),
        findings=rules.check(found, machine()),
        shape=(32, 8, 32),
    )


def told(*targets: str) -> Result:
    return transformer.tell(known(), Settings(), targets=targets or ("RTX 4090",))


def table(result: Result, title: str) -> Table:
    return next(one for one in result.tables if title in one.title)


def test_the_threads_are_told_with_their_efficiency() -> None:
    rows = table(told(), "numbers of threads").rows
    last = rows[-1]
    assert isinstance(last[2], Quantity) and isinstance(last[3], Quantity)
    assert last[2].value == pytest.approx(1.0 / 0.3)
    assert last[3].value == pytest.approx(1.0 / 0.3 / 8)


def test_the_story_tells_what_further_threads_bring() -> None:
    text = " ".join(told().story)
    assert "a step with 8 is 3.33x as fast as with 1, 42% of what equal cores without waiting would bring" in text


def test_only_a_lever_whose_interval_is_above_one_is_said_to_help() -> None:
    result = told()
    verdicts = {row[0]: row[2] for row in table(result, "switched on this CPU").rows}
    assert verdicts == {
        "fused-optimizer": "helps",
        "zero-grad-none": "cannot be told from nothing",
        "bf16-autocast": "not tried",
    }
    text = " ".join(result.story)
    assert "What helps on this CPU: fused-optimizer 1.20x" in text
    assert "zero-grad-none" not in text


def test_one_two_and_four_of_each_gpu_are_predicted() -> None:
    rows = table(told("RTX 4090", "A100 SXM4 80GB"), "GPUs that are not here").rows
    assert [(row[0], row[1].value) for row in rows if isinstance(row[1], Quantity)] == [
        ("RTX 4090", 1),
        ("RTX 4090", 2),
        ("RTX 4090", 4),
        ("A100 SXM4 80GB", 1),
        ("A100 SXM4 80GB", 2),
        ("A100 SXM4 80GB", 4),
    ]
    assert all(isinstance(row[2], Quantity) and row[2].predicted for row in rows)


def test_several_gpus_train_more_samples_but_not_so_many_times_more() -> None:
    rows = table(told(), "GPUs that are not here").rows
    one, two, four = (row[3].value for row in rows if isinstance(row[3], Quantity))
    assert one < two < 2 * one
    assert two < four < 4 * one


def test_attention_over_the_batch_is_remarked() -> None:
    assert any("batch_first=True" in paragraph for paragraph in told().story)


def test_a_model_that_is_batch_first_gets_no_remark() -> None:
    quiet = replace(known(), findings=())
    result = transformer.tell(quiet, Settings(), targets=("RTX 4090",))
    assert not any("batch_first" in paragraph for paragraph in result.story)


@pytest.mark.parametrize(("limit_s", "round_s", "blocks"), [(60.0, 10.0, 6), (60.0, 1.0, 8), (6.0, 10.0, 3)])
def test_a_sweep_has_as_many_blocks_as_its_time_allows(limit_s: float, round_s: float, blocks: int) -> None:
    assert transformer.blocks_within(limit_s, round_s) == blocks


def test_a_sweep_that_failed_is_left_out() -> None:
    result = transformer.tell(replace(known(), sweep=threads.explain((), CORES)), Settings(), targets=("RTX 4090",))
    assert not any("numbers of threads" in one.title for one in result.tables)
