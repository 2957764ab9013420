"""hotlap in a notebook and by function calls, on a real script."""

from pathlib import Path

import pytest

import hotlap
from hotlap.cli import notebook, shelf

pytestmark = pytest.mark.e2e

# More steps than are looked at: where they are too few, the training is run twice.
CELL = """
import torch
from helper import WIDTH

torch.manual_seed(0)
weight = torch.zeros(WIDTH, requires_grad=True)
for _ in range(100_000):
    (torch.randn(64, WIDTH) @ weight - 1).square().mean().backward()
    with torch.no_grad():
        weight -= 0.01 * weight.grad
    weight.grad = None
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
    (made,) = shelf.studies(tmp_path)
    assert not shelf.is_at_work(made.parent), "though this process goes on, as a notebook does"
