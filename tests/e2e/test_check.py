"""`hotlap check` on real scripts: an edit that changes the training fails the gate, whatever it does to the times."""

import json
from pathlib import Path

import pytest

from tests.e2e.running import hotlap

pytestmark = pytest.mark.e2e


# An optimizer would import torch's compiler in each process, which takes as long as torch.
TRAIN = """\
import torch

torch.manual_seed(1)
model = torch.nn.Linear(20, 3)
for _ in range(2000):
    x = torch.randn(16, 20)
    loss = (model(x) - x[:, :3]).square().mean()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(0.05 * parameter.grad)
"""


def test_another_learning_rate_is_another_training(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(TRAIN)
    (tmp_path / "after.py").write_text(TRAIN.replace("0.05 *", "0.06 *"))
    words = ["--numerics", "exact", "--budget", "60s", "--json", "c.json", "plain.py", "after.py"]
    done = hotlap("check", *words, cwd=tmp_path)
    assert done.returncode == 10, done.stderr
    assert done.stdout.splitlines()[-1] == ("plain.py -> after.py: the gate fails it: it does not train the same.")
    assert json.loads((tmp_path / "c.json").read_text())["verdict"] == "HARMED"
    assert not (tmp_path / ".hotlap").exists()


def test_an_edit_that_crashes_is_told_as_that(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(TRAIN)
    (tmp_path / "after.py").write_text(TRAIN.replace("loss.backward()", "loss.backward(one)"))
    done = hotlap("check", "--budget", "60s", "plain.py", "after.py", cwd=tmp_path)
    assert done.returncode == 3, done.stdout
    assert "The second version cannot be compared" in done.stderr
    assert "NameError" in done.stderr
