"""The probe arrives in a process."""

import subprocess
import sys
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
    found = bootstrap.arrive(str(tmp_path / "plan.json"))
    assert list(found) == [made]
    assert made.own_start_s is not None
    assert not (tmp_path / "no-probe").exists()


CHILD = """
import sys
import torch._dynamo  # which the first optimizer imports
theirs = set(sys.modules)
from hotlap.probe import bootstrap, edited, shutdown, start
from hotlap.probe.profilers import NAMES, named
assert all(map(named, NAMES))
print(*sorted(sys.stdlib_module_names & (sys.modules.keys() - theirs)))
"""


def test_the_probe_imports_no_module_of_pythons_that_torch_does_not_import_as_well() -> None:
    """Of the same name many scripts have a file beside them: `resource.py`, `statistics.py`."""
    told = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    assert told.stdout == "\n"
