"""A step beside what the machine could do at best."""

from dataclasses import replace

import pytest

from hotlap.machine.limits import step_limits
from hotlap.record import Checkup, Phase, Run, Status, StepLimits, Unit
from tests.unit.machine.made_up import CORES, CUDA_BUILD, MACHINE, figure

CHECKUP = Checkup(
    machine=MACHINE,
    cores=CORES,
    created="2026-01-01T00:00:00+00:00",
    key="k",
    torch=CUDA_BUILD,
    figures=(
        figure("matmul", 100e9, variant="float32", threads=1),
        figure("matmul", 1e12, variant="float32", threads=16),
        figure("triad", 50e9, unit=Unit.BYTE_PER_S),
        figure("operator", 2e-6, unit=Unit.SECOND),
        figure("matmul", 600e12, device="cuda:0", variant="bfloat16"),
    ),
)
RUN = Run(status=Status.COMPLETE, step_s=(0.010,) * 5, phase_s={Phase.OTHER: (0.010,) * 5})


def limits(**totals: float) -> StepLimits:
    found = step_limits(RUN, CHECKUP, **totals)  # type: ignore[arg-type]  # totals are numbers
    assert found is not None
    return found


def test_a_step_is_told_as_a_share_of_the_best_rate() -> None:
    found = limits(flops_per_step=4e9)
    assert found.limits[0].name == "compute"
    assert found.limits[0].floor_s == pytest.approx(0.004)
    assert found.limits[0].share == pytest.approx(0.4)
    assert "runs at 40% of that limit" in found.why


def test_the_highest_floor_comes_first() -> None:
    found = limits(flops_per_step=1e9, bytes_per_step=4e8, operators_per_step=100)
    assert [limit.name for limit in found.limits] == ["memory", "compute", "operators"]
    assert found.limits[0].floor_s == pytest.approx(0.008)


def test_a_step_above_its_limit_says_that_the_totals_cannot_be_right() -> None:
    assert "less than" in limits(bytes_per_step=4e9).why


def test_a_gpu_is_known_by_its_name() -> None:
    run = replace(RUN, device="NVIDIA H200")
    found = step_limits(run, CHECKUP, flops_per_step=3e12, dtype="bfloat16")
    assert found is not None and found.limits[0].share == pytest.approx(0.5)


def test_nothing_is_said_without_totals_figures_or_steps() -> None:
    assert step_limits(RUN, CHECKUP) is None
    assert step_limits(replace(RUN, device="another GPU"), CHECKUP, flops_per_step=1e9) is None
    assert step_limits(replace(RUN, step_s=()), CHECKUP, flops_per_step=1e9) is None
    assert step_limits(RUN, replace(CHECKUP, figures=()), flops_per_step=1e9) is None
