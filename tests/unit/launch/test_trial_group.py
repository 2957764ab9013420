"""How long the parent waits for a child."""

import os
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.launch import trial_group
from hotlap.launch.reaper import end_all
from hotlap.record import Plan, Run, Status


@pytest.mark.parametrize(
    ("seen", "grace_s"),
    [
        ([(0, 0.0), (0, 90.0)], 10.0),
        ([(0, 0.0), (1, 90.0), (2, 90.1)], 10.0),
        ([(1, 0.0), (2, 26.0), (3, 50.0)], 52.0),
    ],
    ids=["no step yet", "a long start", "long steps"],
)
def test_a_child_is_given_time_to_end_its_step(
    monkeypatch: pytest.MonkeyPatch, seen: list[tuple[int, float]], grace_s: float
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 0.0)
    progress = SimpleNamespace(steps=0)
    place: Any = SimpleNamespace(plan=SimpleNamespace(only_levers=False), progress=progress, fifos=None)
    process: Any = SimpleNamespace(stdout=BytesIO(), stderr=BytesIO(), pid=os.getpid())
    child = trial_group._Child(place, process)
    for steps, now in seen:
        progress.steps = steps
        child.look(now)
    assert child.grace_s == grace_s


def test_what_is_not_covered_is_told(tmp_path: Path) -> None:
    def launcher(*folders: Path) -> trial_group.Launcher:
        return trial_group.Launcher(environment=lambda plan: {}, folders=folders, timeout_s=1.0)

    with launcher(Path("/"), tmp_path) as of_the_root:
        assert of_the_root.not_enclosed == "/ itself never can be"
    with launcher(tmp_path) as known:
        assert known.not_enclosed is None
        assert known._not_known(Run(status=Status.ENDED, sources={str(tmp_path / "deep" / "train.py"): ""})) is None
        told = known._not_known(
            Run(status=Status.ENDED, sources={"/elsewhere/train.py": "", str(tmp_path / "a.py"): ""})
        )
        assert told == "the command does not say that it is /elsewhere"


def test_a_process_that_has_ended_is_not_signalled_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its number may be another one's by then: the others of its trial group go on for minutes."""
    signalled = []

    def counted(pid: int, marker: str) -> None:
        signalled.append(pid)
        end_all(pid, marker)

    monkeypatch.setattr(trial_group, "end_all", counted)
    plans = [Plan(command=command, cwd=str(tmp_path), out="") for command in (("true",), ("sleep", "0.5"))]
    with trial_group.Launcher(environment=lambda plan: {}, folders=[tmp_path], timeout_s=60.0) as launcher:
        assert [run.status for run in launcher(plans, limit_s=60.0)] == [Status.SILENT] * 2
    assert len(signalled) == len(set(signalled)) == 2
