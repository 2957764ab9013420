"""However a script comes to torch, it is measured, and finds the import system as it is without hotlap."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from hotlap.launch import Launcher
from hotlap.record import Plan, Run, Status
from tests.e2e.running import SCRIPTS

pytestmark = pytest.mark.e2e

FOLDER = SCRIPTS / "imports"
NEEDS = {"hugging_face.py": ("datasets", "transformers")}
MODULES = ("loop.py", "record.py", "resource.py", "statistics.py")
NAMES = sorted(path.name for path in FOLDER.glob("*.py") if path.name not in MODULES)


def measured(launcher: Launcher, *scripts: Path) -> list[Run]:
    """Side by side: most of the time is torch's import."""
    plans = [
        Plan(command=(sys.executable, str(script)), cwd=str(FOLDER), out="", steps=30, warmup=5) for script in scripts
    ]
    return launcher(plans, limit_s=400)


def test_any_way_to_torch_is_measured(launcher: Launcher) -> None:
    names = [name for name in NAMES if all(find_spec(module) for module in NEEDS.get(name, ()))]
    found = dict(zip(names, measured(launcher, *(FOLDER / name for name in names)), strict=True))
    assert {name: (run.status, run.error or "", len(run.step_s)) for name, run in found.items()} == {
        name: (Status.COMPLETE, "", 30) for name in names
    }
