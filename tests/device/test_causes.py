"""Trainings on the simulated GPU, whose planted cause their docstring tells: measured, and judged by the rules."""

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from hotlap import rules
from hotlap.launch import Launcher
from hotlap.levers.pin_and_overlap import PinAndOverlap
from hotlap.record import Phase, Plan, Run, SightingKind, Status
from hotlap.rules import launch_bound
from hotlap.source import patch
from hotlap.tune.measuring import PROFILERS
from tests.e2e.running import Forks, opened_forks

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("g++") is None, reason="the simulated GPU is compiled"),
]

HERE = Path(__file__).parent


CLOSELY = tuple(name for name in PROFILERS if name not in ("what-if", "lines", "gradients"))


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(HERE.parent), os.environ.get("PYTHONPATH")))))
        with opened_forks() as made:
            yield made


def measured(forks: Forks, script: str, *, folder: Path = HERE / "scripts") -> Run:
    """Some steps of it, looked at closely."""
    return checked(forks(folder / script, steps=40, warmup=5, profilers=CLOSELY))


def checked(run: Run) -> Run:
    assert run.status is Status.COMPLETE, run.error
    assert run.device == "simulated GPU"
    assert not [note for note in run.notes if "failed" in note], run.notes
    return run


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("sync.py", "sync-bound"),
        ("transfer.py", "transfer-bound"),
        ("pinned.py", "transfer-bound"),
        ("compute.py", "compute-bound"),
        ("functions.py", "compute-bound"),
        ("optimizer.py", "optimizer-bound"),
        ("input.py", "input-bound"),
        ("host.py", "host-bound"),
    ],
)
def test_the_planted_cause_is_found(forks: Forks, script: str, code: str) -> None:
    run = measured(forks, script)
    # What else there is, and what costs most, is the affair of how busy the host is: launches really take its time.
    found = rules.ALL[code](run)
    assert found is not None
    if script == "pinned.py":
        assert "from pinned memory" in found.evidence
    if script in ("compute.py", "functions.py"):
        parts = [run.device_phase_s[phase] for phase in (Phase.FORWARD, Phase.BACKWARD)]
        assert [median(part) for part in parts if part] == pytest.approx([0.020, 0.040], rel=0.02)
    if script == "transfer.py":
        assert rules.ALL["sync-bound"](run) is None, "the same wait"
        assert run.operators is not None
        assert run.operators.copy_exposed_s == pytest.approx(0.080, rel=0.02)
        assert "forked.py" in {Path(one.path or "").name for one in run.sightings}


def test_many_small_kernels_are_counted_and_launching_them_is_found(forks: Forks) -> None:
    """What the host needs for a call is its own: whether a CPU would be faster is a matter for a made-up run."""
    run = measured(forks, "launch.py")
    assert launch_bound.check(run) is not None
    seen = run.operators
    assert seen is not None
    assert seen.num_kernels == pytest.approx(603, abs=5)
    assert seen.num_calls == pytest.approx(606, abs=5)
    assert seen.device_busy_s == pytest.approx(603 * 5e-6, rel=0.05)
    assert seen.dispatch_s is not None
    assert seen.flops == 0, "a cell multiplies no matrices"
    assert seen.moved_bytes == pytest.approx(54_000, rel=0.05), "603 kernels, most of them read 64 bytes and write 32"


def test_input_behind_queued_kernels_is_no_bottleneck(forks: Forks) -> None:
    run = measured(forks, "hidden.py")
    host_s, starved = run.mean_phase_s(Phase.INPUT), run.device_phase_s[Phase.INPUT]
    assert host_s is not None
    assert host_s > 0.002, "the host sleeps that long"
    assert starved is not None
    assert median(starved) < 0.0001
    # Together the steps take what the device needs, though the host has launched them long before.
    assert sum(run.step_s) / len(run.step_s) > 0.040


def test_no_copy_holds_the_host_up_after_pin_and_overlap(forks: Forks, tmp_path: Path) -> None:
    path = HERE / "scripts" / "copies.py"
    command = (sys.executable, str(path))
    plan = Plan(command=command, cwd=str(path.parent), out="", steps=40, warmup=5, profilers=CLOSELY)
    with Launcher(environment=lambda plan: {}, folders=[path.parent], timeout_s=400.0) as launcher:
        (found,) = launcher([plan], limit_s=200.0)
    run = checked(found)
    assert num_blocking(run) >= 3, "of x, of y and of z"
    edits = PinAndOverlap().edits(replace(run, sightings=()))
    (tmp_path / "copies.py").write_text(patch(edits, root=path.parent).texts[str(path)])
    assert num_blocking(measured(forks, "copies.py", folder=tmp_path)) == 0


def num_blocking(run: Run) -> float:
    """Copies of a step that the host waited for."""
    return sum(one.per_step for one in run.sightings if one.kind is SightingKind.BLOCKING_COPY)
