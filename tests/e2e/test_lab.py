"""The lab's commands on this machine, each with --quick; and hotlap in a notebook on a real script."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hotlap
from hotlap.lab import EXPERIMENTS, notebook
from hotlap.lab.lorenz import FIT
from tests.e2e.running import SCRIPTS

pytestmark = pytest.mark.e2e


def lab(*words: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """`hotlap lab ...`; it must leave with `code`."""
    done = subprocess.run(
        [sys.executable, "-m", "hotlap", "lab", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(hotlap.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def quick(name: str, *words: str, cwd: Path) -> dict[str, Any]:
    """The JSON of a quick run, its page written and its text clean."""
    page = cwd / "page.html"
    done = lab(name, "--quick", "--html", str(page), "--json", "result.json", *words, cwd=cwd)
    assert f"hotlap lab {name} --quick" in done.stdout
    assert "Traceback" not in done.stderr
    assert "<svg" in page.read_text(encoding="utf-8")
    told: dict[str, Any] = json.loads((cwd / "result.json").read_text())
    assert told["name"] == name
    assert told["quick"] is True
    assert told["story"] and told["tables"] and told["pictures"]
    assert told["num_cores"] >= 1
    assert told["elapsed_s"] > 0
    return told


def has_gpu(told: dict[str, Any]) -> bool:
    return bool(told["gpus"])


def test_without_a_name_the_experiments_are_listed(tmp_path: Path) -> None:
    text = lab(cwd=tmp_path).stdout
    assert [line.split()[0] for line in text.splitlines()[: len(EXPERIMENTS)]] == [one.name for one in EXPERIMENTS]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["warp"], "There is no experiment 'warp'"),
        (["transfer", "train.py"], "takes no script"),
        (["transfer", "--data", "."], "--data does nothing"),
        (["transfer", "--gpu", "Voodoo 2"], "No device is called"),
        (["transfer", "--html", "no/such/place.html"], "there is no folder no/such"),
        (["pinning", "--data", "nowhere"], "There is no folder nowhere"),
        (["pinning", "--data", "."], "has no train-images-idx3-ubyte"),
        (["transformer", "--layers", "0"], "--layers 0 is not a whole number from 1"),
        (["checklist"], "Which training?"),
        (["checklist", "missing.py"], "There is no file missing.py"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(words: list[str], says: str, tmp_path: Path) -> None:
    done = lab(*words, cwd=tmp_path, code=2)
    assert says in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_transfer(tmp_path: Path) -> None:
    told = quick("transfer", "--gpu", "RTX 3090", cwd=tmp_path)
    founding = {row[0]: row[1] for row in told["tables"][0]["rows"]}
    assert founding["NumPy"]["value"] > 0
    assert founding["GPU"]["predicted"] is not has_gpu(told)


def test_launch_floor(tmp_path: Path) -> None:
    told = quick("launch-floor", cwd=tmp_path)
    founding = {row[0]: row[1:] for row in told["tables"][0]["rows"]}
    assert all(0 < cell["value"] < 1 for cells in founding.values() for cell in cells)
    assert founding["GPU"][0]["predicted"] is not has_gpu(told)


def test_pinning(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the bundled digits are scikit-learn's")
    told = quick("pinning", cwd=tmp_path)
    whole, small, memory = told["tables"]
    assert [row[0] for row in whole["rows"]] == ["as written", "the article's two changes", "under hotlap"]
    assert all(row[1]["value"] > 0 for table in (whole, small) for row in table["rows"])
    assert all(row[1]["value"] > 50 << 20 for row in memory["rows"])
    assert any("not MNIST" in note for note in told["notes"])
    # The lever must have been at work: all waiting for batches together is less. (As a share of the step it need not
    # be: the other lever makes the rest shorter as well.)
    as_written, under_hotlap = (row[1]["value"] * row[3]["value"] for row in (whole["rows"][0], whole["rows"][2]))
    assert under_hotlap < as_written


def test_devices(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the bundled digits are scikit-learn's")
    told = quick("devices", cwd=tmp_path)
    (table,) = told["tables"]
    small, large = table["rows"]
    assert large[1]["value"] > small[1]["value"]
    assert small[4]["predicted"] is not has_gpu(told)


def test_lorenz(tmp_path: Path) -> None:
    told = quick("lorenz", cwd=tmp_path)
    ours = next(row for row in told["tables"][0]["rows"] if row[0] == FIT)
    native = not any("without its native core" in note for note in told["notes"])
    assert ours[5]["value"] == 300 if native else ours[5]["value"] > 2
    curve = next(one for one in told["pictures"][1]["curves"] if one["name"] == FIT)
    assert curve["y"][-1] < curve["y"][0]  # it learns


def test_transformer(tmp_path: Path) -> None:
    told = quick("transformer", "--layers", "2", "--budget", "5s", cwd=tmp_path)
    there = told["tables"][-1]["rows"]
    assert [(row[0], row[1]["value"]) for row in there] == [("RTX 4090", 1), ("RTX 4090", 2), ("RTX 4090", 4)]
    assert all(row[2]["predicted"] for row in there)
    assert any("batch_first=True" in paragraph for paragraph in told["story"])


def test_checklist(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text((SCRIPTS / "plain.py").read_text())
    before = script.read_bytes()
    told = quick("checklist", "train.py", cwd=tmp_path)
    (table,) = told["tables"]
    assert len(table["rows"]) == 15
    assert all(row[2] and row[3] for row in table["rows"])
    assert script.read_bytes() == before


def test_a_script_that_fails_is_told_as_its_own_failure(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nraise SystemExit('no data')\n")
    done = lab("checklist", "--quick", "train.py", cwd=tmp_path, code=3)
    assert "no data" in done.stderr


CELL = """
import torch
from torch import nn
from helper import WIDTH

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(2000):
    x = torch.randn(64, WIDTH)
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""


def test_a_cell_is_measured_with_the_modules_beside_the_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "helper.py").write_text("WIDTH = 20\n")
    shown = notebook.cell_magic("--quick --steps 40", CELL)
    assert shown is not None, capsys.readouterr().err
    assert len(shown.baseline[0].step_s) >= 40
    assert shown._repr_html_().startswith("<iframe")
    left = sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__")
    assert left == [".hotlap", "helper.py"]
    assert len(list(tmp_path.glob(".hotlap/*/report.html"))) == 1


def test_a_script_is_measured_by_a_function_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "helper.py").write_text("WIDTH = 20\n")
    (tmp_path / "train.py").write_text(CELL)
    study = hotlap.measure(["train.py"], steps=40, quick=True)
    assert study.baseline[0].median_step_s() > 0
    assert study.command == ("train.py",)
