"""`hotlap check` on real scripts: an edit that changes the training fails the gate, whatever it does to the times."""

import json
from pathlib import Path

import pytest

from tests.e2e.running import hotlap, place

pytestmark = pytest.mark.e2e


def test_another_learning_rate_is_another_training(tmp_path: Path) -> None:
    before = place("plain.py", tmp_path)
    after = tmp_path / "after.py"
    after.write_text(before.read_text().replace("lr=0.05", "lr=0.06"))
    words = ["--numerics", "exact", "--budget", "60s", "--json", "c.json", "plain.py", "after.py", "2000"]
    done = hotlap("check", *words, cwd=tmp_path)
    assert done.returncode == 10, done.stderr
    assert done.stdout.splitlines()[-1] == ("plain.py -> after.py: the gate fails it: it does not train the same.")
    assert json.loads((tmp_path / "c.json").read_text())["verdict"] == "HARMED"
    assert not (tmp_path / ".hotlap").exists()


def test_an_edit_that_crashes_is_told_as_that(tmp_path: Path) -> None:
    before = place("plain.py", tmp_path)
    (tmp_path / "after.py").write_text(before.read_text().replace("made += 1", "made += one"))
    done = hotlap("check", "--budget", "60s", "plain.py", "after.py", "2000", cwd=tmp_path)
    assert done.returncode == 3, done.stdout
    assert "The second version cannot be compared" in done.stderr
    assert "NameError" in done.stderr
