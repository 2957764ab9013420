"""The probe arrives in a process."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from hotlap.probe import bootstrap, start
from hotlap.record import Plan, save


def test_where_torch_was_first_the_probe_starts_at_once_and_fails_at_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a child that multiprocessing spawns: it has read the script when its target is about to run."""
    made = SimpleNamespace(own_start_s=None)
    monkeypatch.setattr(start, "start", lambda plan: made)
    save(Plan(command=("train.py",), cwd=".", out=str(tmp_path)), tmp_path / "plan.json")
    assert bootstrap.arrive(str(tmp_path / "plan.json"))() is made
    assert made.own_start_s is not None
    assert not (tmp_path / "no-probe").exists()
