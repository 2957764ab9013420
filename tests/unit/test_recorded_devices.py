"""What real GPUs did under hotlap (tests/recorded), judged by today's code."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from statistics import mean

import pytest

from hotlap import cuda, rules
from hotlap.gate import Evidence, judge
from hotlap.record import Phase, Run, Study, Verdict, codec
from hotlap.report.outcome import conclusion
from hotlap.rules.step import device_s, launch_s, phase_s
from hotlap.trace import read_trace
from hotlap.tune.diagnosis import ceilings

H200 = Path(__file__).parents[1] / "recorded" / "nvidia-h200"
H100 = H200.with_name("nvidia-h100")
TRAININGS = ("mnist", "conv-amp", "gpt-10m", "gpt-124m", "lstm", "ode")


def study_in(path: Path) -> Study:
    return codec.decode(gzip.decompress(path.read_bytes()), Study, name=path.name)


def measured(training: str) -> Study:
    return study_in(H200 / f"measure-{training}.json.gz")


def first(training: str) -> Run:
    return measured(training).baseline[0]


@pytest.mark.parametrize(
    ("training", "codes", "levers"),
    [
        ("mnist", ["launch-bound", "input-bound", "host-bound"], ("compile",)),
        ("conv-amp", ["input-bound", "launch-bound"], ("cached-dataset", "workers", "batched-fetch")),
        ("gpt-10m", ["compute-bound"], ("tf32", "compile", "bf16-autocast")),
        ("gpt-124m", ["compute-bound"], ("tf32", "compile", "bf16-autocast")),
        ("lstm", ["launch-bound"], ("compile",)),
        ("ode", ["too-small-for-gpu"], ()),  # 29 ms there, 10 ms on the sixteen cores of the same machine
    ],
)
def test_its_causes_are_found(training: str, codes: list[str], levers: tuple[str, ...]) -> None:
    study = measured(training)
    found = rules.check(study.baseline[0], study.machine)
    assert [one.code for one in found if not one.advice] == codes
    assert found[0].try_levers == levers


@pytest.mark.parametrize("training", TRAININGS)
def test_the_two_clocks_and_the_profiler_agree(training: str) -> None:
    run = first(training)
    step_s, phases_s = mean(run.step_s), sum(device_s(run, phase) or 0.0 for phase in Phase)
    assert phases_s == pytest.approx(step_s, rel=0.1), "16 steps by the device's clock, 200 others by the host's"
    assert run.operators is not None and run.operators.complete
    busy_s, launches_s = run.operators.device_busy_s, launch_s(run)
    assert busy_s is not None and launches_s is not None
    assert 0 < busy_s < step_s
    model_s = sum(phase_s(run, phase) or 0.0 for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER))
    assert busy_s - (run.operators.copy_s or 0.0) < model_s, "all its kernels are the model's and the optimizer's"
    assert launches_s < model_s
    assert all(1.0 <= one.speedup.mid < step_s / busy_s + 1.0 for one in ceilings(run))


def test_what_the_host_waits_at_a_busy_device_is_no_reason_for_idling() -> None:
    run = first("conv-amp")
    waited_s = sum(one.cost_s or 0.0 for one in run.sightings)
    assert waited_s > 0.2 * mean(run.step_s)
    launches_s = launch_s(run)
    assert launches_s is not None
    assert launches_s == pytest.approx(1.01e-3, rel=0.01)


def test_its_warnings_of_waits_are_known() -> None:
    told = json.loads(gzip.decompress((H200 / "sync-warnings.json.gz").read_bytes()))
    assert len(told) == 12
    assert all(cuda.SYNC_WARNING in one["message"] for one in told)


def test_a_trace_of_it_says_the_same_as_the_measurement() -> None:
    """Two steps that the profiler saw whole, of a training like `mnist` that waits for a mask as well."""
    study = read_trace(H200 / "profiler.json.gz")
    run = study.baseline[0]
    assert run.device == "NVIDIA H200"
    assert len(run.step_s) == 2
    assert [one.code for one in study.findings] == ["launch-bound", "input-bound", "host-bound"]
    assert run.operators is not None and run.operators.device_busy_s is not None
    assert run.operators.device_busy_s == pytest.approx(0.000158, rel=0.01)
    lines = {one.what for one in run.sightings}
    assert {"aten::nonzero", "aten::_local_scalar_dense", "Memcpy HtoD (Pageable -> Device)"} <= lines


def test_what_its_tune_compared_can_be_shown() -> None:
    study = study_in(H200 / "tune-gpt-10m.json.gz")
    seen = {trial.levers[0]["name"]: trial.seen for trial in study.trials if trial.seen is not None}
    assert seen["tf32"] == pytest.approx(1.89, abs=0.01)
    assert seen["bf16-autocast"] == pytest.approx(1.79, abs=0.01)


@pytest.mark.parametrize(
    ("training", "codes", "first_lever"),
    [
        ("mnist", ["launch-bound", "input-bound", "host-bound"], "compile"),
        ("gpt-10m", ["compute-bound"], "tf32"),
        ("images", ["input-bound", "launch-bound"], "cached-dataset"),
    ],
)
def test_causes_on_an_h100_are_found(training: str, codes: list[str], first_lever: str) -> None:
    study = study_in(H100 / f"tune-{training}.json.gz")
    found = rules.check(study.baseline[0], study.machine)
    assert [one.code for one in found if not one.advice] == codes
    assert found[0].try_levers[0] == first_lever


@pytest.mark.parametrize(("training", "lever"), [("mnist", "fused-optimizer"), ("images", "device-resident")])
def test_what_the_gate_accepted_on_an_h100_is_told(training: str, lever: str) -> None:
    (trial,) = [one for one in study_in(H100 / f"tune-{training}.json.gz").trials if one.accepted]
    assert [spec["name"] for spec in trial.levers] == [lever]
    assert trial.verdict is Verdict.UNHARMED


def test_a_training_whose_bits_differ_from_run_to_run_there_is_held_to_what_rounding_does() -> None:
    _, *base = study_in(H100 / "tune-images.json.gz").baseline
    assert all(run.forked for run in base)
    one, other = (run for run in base if not run.perturbation)
    perturbed = tuple(run for run in base if run.perturbation)
    assert judge("exact", Evidence(base=(one,), lever=(other,))).verdict is Verdict.UNDECIDED
    assert judge("rounding", Evidence(base=(one,), lever=(other,), perturbed=perturbed)).verdict is Verdict.UNHARMED
    halved = replace(other, loss=tuple(0.5 * loss if isinstance(loss, float) else loss for loss in other.loss))
    assert judge("rounding", Evidence(base=(one,), lever=(halved,), perturbed=perturbed)).verdict is Verdict.HARMED


@pytest.mark.parametrize(
    ("training", "levers", "line", "title"),
    [
        ("images", ["device-resident"], "DataLoader(resident(Pictures(2048))", "1.29x as fast"),
        ("digits", ["device-resident", "cached-dataset"], "DataLoader(resident(cached(Digits(", "1.36x as fast"),
    ],
)
def test_a_study_on_an_h200_that_came_to_its_patch_is_told_as_one(
    training: str, levers: list[str], line: str, title: str
) -> None:
    study = study_in(H200 / f"tune-{training}.json.gz")
    assert study.result is not None and study.result.total_speedup is not None
    total = study.result.total_speedup
    assert [spec["name"] for spec in study.result.levers] == levers
    assert 1 < total.low < total.high < study.result.speedup.low, "its start counts"
    assert study.patch is not None and line in study.patch
    assert conclusion(study).title == title


def test_a_process_that_trains_over_nccl_there_is_measured_as_any_other() -> None:
    study = measured("ranks")
    run = study.baseline[0]
    assert [one.code for one in rules.check(run, study.machine)] == ["launch-bound", "input-bound"]
    assert sum(mean(column) for column in run.phase_s.values() if column) == pytest.approx(mean(run.step_s), rel=1e-6)
