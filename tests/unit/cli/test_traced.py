"""A recorded run -> the workload that is predicted, with its input as the script has it."""

from dataclasses import replace

import pytest

from hotlap.cli import traced
from hotlap.errors import NoSteps, ScriptFailed
from hotlap.predict import Workload
from hotlap.record import Run, Status, encode
from tests.sample_runs import loader, run_with

WORK = Workload.from_totals(flop=1e9, memory_bytes=1e7, num_kernels=50, parameter_bytes=1e6)


def run(*, workers: int, input_s: float, step_s: float = 0.010) -> Run:
    return replace(
        run_with(step_s=step_s, input_s=input_s),
        loaders=(replace(loader(), num_workers=workers, trained_on=True, num_items=6400, batch_size=64),),
        workload=encode(WORK).decode(),
    )


def test_batches_that_the_training_process_makes_come_on_top() -> None:
    work = traced._workload(run(workers=0, input_s=0.006), "train.py")
    assert work.input_workers == 0
    assert work.input_s == pytest.approx(0.006)
    assert work.batch_size == 64
    assert work.name == "train.py"


def test_workers_that_the_step_waits_for_bound_it() -> None:
    work = traced._workload(run(workers=4, input_s=0.006), "train.py")
    assert work.input_workers == 4
    assert work.input_s == pytest.approx(4 * 0.010)


def test_workers_that_keep_up_do_not_matter() -> None:
    assert traced._workload(run(workers=4, input_s=0.0005), "train.py").input_s is None


def test_several_processes_are_told() -> None:
    several = replace(run(workers=0, input_s=0.001), world_size=4)
    assert any("4 processes" in note for note in traced._workload(several, "train.py").notes)


def test_a_failure_is_the_scripts() -> None:
    failed = replace(run_with(), status=Status.CRASHED, error="ValueError: no", output="Traceback ...")
    with pytest.raises(ScriptFailed, match="ValueError: no"):
        traced._workload(failed, "train.py")


def test_too_few_steps_are_told_with_what_the_probe_noted() -> None:
    ended = replace(run_with(), status=Status.ENDED, error="it came to its end", notes=("The profiler gave up.",))
    with pytest.raises(NoSteps, match=r"came to its end.*gave up"):
        traced._workload(ended, "train.py")
