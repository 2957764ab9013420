"""hotlap by function calls, as in a notebook, on a real script."""

from pathlib import Path

import pytest

import hotlap
from hotlap.cli import storage

pytestmark = pytest.mark.e2e

# More steps than are looked at: where they are too few, the training is run twice.
TRAIN = """
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


def test_a_script_is_measured_by_a_function_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "helper.py").write_text("WIDTH = 20\n")
    (tmp_path / "train.py").write_text(TRAIN)
    study = hotlap.measure(["train.py"], steps=40, quick=True)
    assert len(study.baseline[0].step_s) >= 40
    assert study._repr_html_().startswith("<iframe")
    assert study.command == ("train.py",)
    (made,) = storage.studies(tmp_path)
    assert not storage.is_at_work(made.parent), "though this process goes on, as a notebook does"
