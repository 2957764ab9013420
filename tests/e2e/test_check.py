"""`hotlap check` on real scripts: an edit that changes the training fails the gate, whatever it does to the times."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.cli import main
from hotlap.launch import Launcher
from hotlap.record import Plan
from hotlap.source.marks import marked
from hotlap.tune import checking
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


IN_PARTS = f"""{TRAIN}
for _ in range(500):
    loss = model(torch.randn(16, 20)).square().mean()
    model.zero_grad()
    loss.backward()
    model.weight.data.sub_(0.01 * model.weight.grad)
"""


def test_harm_behind_the_compared_steps_is_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for pairs in ("_FEWEST_PAIRS", "_MOST_PAIRS"):
        monkeypatch.setattr(checking, pairs, 1)  # times are no matter here, and sixteen pairs of them half a minute
    (tmp_path / "plain.py").write_text(IN_PARTS)
    (tmp_path / "after.py").write_text(IN_PARTS.replace("0.01 *", "9.0 *"))
    assert main(["check", "--budget", "60s", "plain.py", "after.py"]) == 11
    told = capsys.readouterr().out
    assert f"line {len(IN_PARTS.splitlines())} of the second version had no part in them" in told
    assert told.splitlines()[-1].endswith("inconclusive: it is not proved that it trains the same.")


@pytest.mark.slow
def test_a_harmless_edit_of_what_is_compared_passes_and_a_comment_is_none(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(IN_PARTS)
    edited = IN_PARTS.replace("x[:, :3]", "x.narrow(1, 0, 3)").replace("range(500):", "range(500):  # fine-tuning")
    (tmp_path / "after.py").write_text(edited)
    done = hotlap("check", "--budget", "60s", "--json", "c.json", "plain.py", "after.py", cwd=tmp_path)
    assert json.loads((tmp_path / "c.json").read_text())["verdict"] == "UNHARMED", done.stdout
    assert done.returncode in (0, 11, 12), "what becomes of the times is the machine's affair"


IN_WORKERS = """\
import torch
from torch.utils.data import DataLoader, Dataset


class Items(Dataset):
    def __len__(self):
        return 80

    def __getitem__(self, index):
        return torch.full((4,), index / 80)


@torch.jit.script
def scaled(x):
    return x * 2.0


@torch.compile(fullgraph=True)
def loss_of(y):
    return y.square().mean()


model = torch.nn.Linear(4, 1)
for epoch in range(2):
    for x in DataLoader(Items(), batch_size=2, num_workers=1):
        loss = loss_of(model(scaled(x)))
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(0.01 * parameter.grad)
    if epoch == 1:
        print("trained")
"""


@pytest.mark.parametrize(("steps", "not_seen"), [(60, ['print("trained")']), (200, [])])
def test_code_of_workers_and_of_compiled_functions_counts_as_run(
    steps: int, not_seen: list[str], launcher: Launcher, tmp_path: Path
) -> None:
    path = tmp_path / "plain.py"
    path.write_text(IN_WORKERS)
    other = IN_WORKERS
    for old, new in (("/ 80", "/ 81"), ("* 2.0", "* 3.0"), ("mean()", "sum()"), ("trained", "done")):
        assert old in other
        other = other.replace(old, new)
    text, edited = marked(IN_WORKERS, other)
    plan = Plan(command=(sys.executable, str(path)), cwd=str(tmp_path), out="", steps=steps, warmup=0, afresh=True)
    plan = replace(plan, replaced={str(path): text})
    (run,) = launcher([plan], limit_s=400.0)
    lines = IN_WORKERS.splitlines()
    assert len(edited) == 4
    missed = [one for one in edited if one.marks.isdisjoint(run.marks)]
    assert [lines[one.line - 1].strip() for one in missed] == not_seen
