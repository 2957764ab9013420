"""Heats as jobs: by a stand-in of Slurm that takes the first node away, and by Slurm itself where it runs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hotlap.launch import Order, Placed, Slurm
from hotlap.record import Plan, Status, Turn
from tests.e2e.running import place

pytestmark = pytest.mark.e2e

# Jobs are processes here; the first of all is preempted before it begins.
STAND_IN = {
    "sbatch": """
        for word; do case "$word" in --wrap=*) wrap=${word#--wrap=};; --output=*) out=${word#--output=};; esac; done
        if mkdir "$0.first" 2>/dev/null; then echo lost; exit; fi
        setsid sh -c "$wrap" >"$out" 2>&1 &
        echo $!""",
    "squeue": """
        job=${2#--jobs=}
        if [ "$job" = lost ]; then echo PREEMPTED; elif kill -0 "$job" 2>/dev/null; then echo RUNNING; fi""",
    "sacct": "",
    "scontrol": "echo JobState=COMPLETED",
    "scancel": 'kill -- "-$1" 2>/dev/null',
}


def is_there() -> bool:
    """A Slurm whose node has nothing to do."""
    if shutil.which("sbatch") is None or shutil.which("sinfo") is None:
        return False
    done = subprocess.run(["sinfo", "--noheader", "--format=%t"], capture_output=True, text=True, check=False)
    return "idle" in done.stdout.split()


@pytest.mark.skipif(sys.platform != "linux", reason="a shell script stands in for Slurm")
@pytest.mark.parametrize(
    "real", [False, pytest.param(True, marks=pytest.mark.skipif(not is_there(), reason="no Slurm runs here"))]
)
def test_whole_heats_are_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real: bool) -> None:
    place("plain.py", tmp_path)
    if not real:
        for name, text in STAND_IN.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    plan = Plan(command=(sys.executable, "plain.py"), cwd=str(tmp_path), out="", steps=22, warmup=2)
    taking_turns = Plan(command=plan.command, cwd=plan.cwd, out="", steps=22, turn=Turn(steps=11, ready="", go=""))
    order = Order(folders=(str(tmp_path),), timeout_s=400.0, memory_bytes=None)
    with Placed(Slurm(), tmp_path / "jobs", nodes=2, order=order) as runs:
        machine = runs.machine()
        (pair, (single,)) = runs.many([[taking_turns, taking_turns], [plan]], limit_s=400.0)
    assert machine.usable_cores >= 1
    assert [run.status for run in (*pair, single)] == [Status.COMPLETE] * 3
    assert [len(run.step_s) for run in (*pair, single)] == [22, 22, 22]
    assert not (tmp_path / "jobs").exists()
