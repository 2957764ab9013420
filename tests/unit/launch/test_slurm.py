"""Slurm's commands, as a stand-in on PATH answers them."""

import os
from pathlib import Path

import pytest

from hotlap.errors import UserError
from hotlap.launch.placed import State
from hotlap.launch.slurm import Slurm


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, **commands: str) -> None:
    """Each command prints its text, and notes its words."""
    for name, text in commands.items():
        path = folder / name
        path.write_text(f'#!/bin/sh\necho "$0 $@" >> {folder}/asked\n{text}\n')
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin:/bin")


def test_a_job_gets_a_whole_node_of_the_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, sbatch='echo "17;cluster"', scancel=":")
    slurm = Slurm("gpu")
    assert slurm.submit(["python", "-m", "x", "a b"], tmp_path, limit_s=61.0) == "17"
    slurm.cancel("17")
    asked = (tmp_path / "asked").read_text()
    for word in ("--exclusive", "--nodes=1", "--partition=gpu", "--time=2", "--wrap=python -m x 'a b'", "scancel 17"):
        assert word in asked


@pytest.mark.parametrize(
    ("squeue", "sacct", "scontrol", "state"),
    [
        ("echo PENDING", ":", ":", State.PLACED),
        ("echo RUNNING", ":", ":", State.PLACED),
        ("exit 1", "echo PREEMPTED", ":", State.LOST),
        ("exit 1", 'echo "CANCELLED by 1000"', ":", State.OVER),
        (":", ":", 'echo "JobId=1 JobName=x"; echo "   JobState=NODE_FAIL Reason=None"', State.LOST),
        (":", ":", "echo slurm_load_jobs error: Invalid job id specified >&2; exit 1", State.OVER),
        (
            "exit 1",
            "exit 1",
            "echo error: Unable to contact slurm controller >&2; exit 1",
            State.SILENT,
        ),
    ],
)
def test_states_are_asked_where_they_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, squeue: str, sacct: str, scontrol: str, state: State
) -> None:
    stand_in(tmp_path, monkeypatch, squeue=squeue, sacct=sacct, scontrol=scontrol)
    assert Slurm().state("1")[0] is state


def test_without_slurm_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="sbatch is not found"):
        Slurm().submit(["python"], tmp_path, limit_s=1.0)
