"""The table of `hotlap predict`: its width, its chances, and what stands above it."""

import pytest

from hotlap.cli import forecast_table
from hotlap.cli.traced import Traced
from hotlap.predict import Workload, forecast
from hotlap.record import CpuUse, Run, Status


def test_a_table_too_wide_for_the_terminal_is_two_with_the_gpus_in_each() -> None:
    columns = [("GPU", ["RTX 4090"]), ("step", ["1.00 ms"]), ("bound by", ["memory"]), ("fits", ["yes"])]
    assert forecast_table.parts(columns, width=31) == (columns,)  # a space behind each column
    assert forecast_table.parts(columns, width=30) == (columns[:3], [columns[0], columns[3]])


@pytest.mark.parametrize(
    ("flop", "begins"), [(1e3, "All 2 take the same time within 1%"), (1e15, "Fastest is H100 SXM5 80GB")]
)
def test_gpus_that_are_as_fast_are_told_as_such(flop: float, begins: str) -> None:
    work = Workload.from_totals(flop=flop, memory_bytes=1e6, num_kernels=100)
    known = Traced(work=work, device=None, step_s=None)
    found = tuple(forecast(work, target=name) for name in ("V100 SXM2 32GB", "H100"))
    assert forecast_table.why(forecast_table.Shown(known=known, predictions=found))[-1].startswith(begins)


@pytest.mark.parametrize(("main", "busy"), [(1.0, False), (0.4, True)])
def test_a_step_that_was_timed_on_a_busy_machine_is_told_as_such(main: float, busy: bool) -> None:
    use = CpuUse(usable_cores=2.0, main=main, others=0.0, runnable=1.0)
    work = Workload.from_totals(flop=1e12, memory_bytes=1e10, num_kernels=100)
    known = Traced(work=work, device="V100 SXM2 32GB", step_s=0.1, run=Run(status=Status.COMPLETE, cpu=use))
    there = forecast(work, target="H100")
    here, *_ = forecast_table.why(forecast_table.Shown(known=known, predictions=(there,)))
    assert ("The machine was busy: training had a core for 40%" in here) is busy
