"""`hotlap predict` on real scripts, and on saved workloads."""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.cli import options, predict
from hotlap.cli.words import command, split_command
from hotlap.errors import NoSteps, ScriptFailed, UserError
from hotlap.predict import Workload, workload
from hotlap.record import save

SCRIPT = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

assert sys.argv[1:] == ["--width", "8"] and __name__ == "__main__"
net = nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = TensorDataset(torch.randn(400, 10), torch.randint(0, 2, (400,)))
for x, y in DataLoader(data, batch_size=STEPS):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
END
"""


def call(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command(parser.add_subparsers(), options._predict)
    head, tail = split_command(["predict", *words], parser)
    args = parser.parse_args(head)
    args.tail, args.configured = tail, frozenset()
    return predict.run(args)


def script(folder: Path, *, batch: int = 20, end: str = "raise SystemExit('not reached')") -> str:
    path = folder / "train.py"
    path.write_text(SCRIPT.replace("STEPS", str(batch)).replace("END", end))
    return str(path)


@pytest.mark.processes
def test_a_script_is_traced_and_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "step.json"
    words = ["--gpu", "4090", "--count", "1,2", "--json", "-", "--save-workload", str(kept), script(tmp_path)]
    assert call(*words, "--width", "8") == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["device"], one["count"]) for one in found] == [("RTX 4090", 1), ("RTX 4090", 2)]
    for one in found:
        assert set(one) == {"device", "count", "step_s", "efficiency", "bound_by", "fits", "assumptions"}
        assert one["step_s"]["low"] < one["step_s"]["mid"] < one["step_s"]["high"]
        assert one["fits"] is True
    work = workload.load(kept)
    # Forward and two gradients of both layers but the input's, for 20 samples.
    assert work.flop == 2 * 20 * (10 * 8 * 2 + 8 * 2 * 3)
    assert work.batch_bytes == 20 * (10 * 4 + 8)


@pytest.mark.processes
def test_a_script_with_too_few_steps_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(NoSteps, match="before a step was traced"):
        call("--gpu", "4090", script(tmp_path, batch=200, end=""), "--width", "8")


@pytest.mark.processes
def test_a_script_that_fails_shows_its_own_error(tmp_path: Path) -> None:
    with pytest.raises(ScriptFailed) as failure:
        call("--gpu", "4090", script(tmp_path), "--width", "9")
    assert "AssertionError" in failure.value.output


def saved(folder: Path) -> str:
    path = folder / "work.json"
    work = Workload.from_totals(flop=1e13, memory_bytes=1e11, num_kernels=500, parameter_bytes=1e8)
    save(work, path)
    return str(path)


def test_a_table_is_shown_with_its_assumptions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--measured-on", "V100", "--measured-step", "0.8"]
    assert call("--workload", saved(tmp_path), "--gpu", "A100", *options) == 0
    shown = capsys.readouterr().out
    assert "takes 800 ms on V100, bound by products" in shown
    assert "was taken for" in shown
    assert "Fastest is A100 SXM4 40GB" in shown


def test_of_gpus_that_are_as_fast_as_each_other_none_is_called_the_fastest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "work.json"
    save(replace(Workload.from_totals(flop=1e6, memory_bytes=1e6, num_kernels=1), name="vae.py", input_s=0.1), path)
    measured = ["--measured-on", "V100 SXM2 16GB", "--measured-step", "0.1"]
    assert call("--workload", str(path), "--gpu", "A100,H100,T4", *measured) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("A step of vae.py takes 100 ms on V100")
    assert "All 3 take the same time within 1%" in shown and "Fastest is" not in shown


def test_a_time_without_its_unit_is_refused(tmp_path: Path) -> None:
    words = ["--workload", saved(tmp_path), "--gpu", "H100", "--measured-on", "V100", "--measured-step"]
    with pytest.raises(UserError, match="Is the unit right"):
        call(*words, "1ms")
    assert call(*words, "1") == 0


@pytest.mark.parametrize("names", ["", " , "])
def test_no_name_is_not_the_usual_nine(names: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--gpu names nothing"):
        call("--workload", saved(tmp_path), "--gpu", names)


def test_a_thousand_steps_of_several_gpus_are_said_to_be_batches_of_today(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("--workload", saved(tmp_path), "--gpu", "H100", "--count", "8") == 0
    assert "1000 of today's batches" in capsys.readouterr().out
    assert call("--workload", saved(tmp_path), "--gpu", "H100") == 0
    assert "1000 steps" in capsys.readouterr().out


@pytest.fixture
def large(tmp_path: Path) -> list[str]:
    """Four samples of 20 GB each."""
    work = Workload.from_totals(flop=1e13, memory_bytes=1e11, num_kernels=500, parameter_bytes=1e8, batch_size=4)
    save(replace(work, activation_bytes=80e9), tmp_path / "large.json")
    return ["--workload", str(tmp_path / "large.json"), "--measured-on", "H100", "--measured-step", "1"]


def test_what_does_not_hold_the_batch_is_not_the_fastest(large: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*large, "--gpu", "RTX 5090,H200 SXM 141GB,T4") == 0
    *_, fastest = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("  assumed")]
    assert fastest.startswith("Fastest is H200 SXM 141GB")
    assert call(*large, "--gpu", "RTX 5090") == 0
    shown = capsys.readouterr().out
    assert "None holds this batch" in shown
    assert "fastest would be RTX 5090" in shown


def test_half_precision_has_room_for_a_larger_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "work.json"
    work = Workload.from_totals(flop=1e13, memory_bytes=1e11, num_kernels=500, parameter_bytes=1e8, precision="fp32")
    save(replace(work, activation_bytes=20e9), path)
    largest, memory = [], []
    for asked in ("fp32", "bf16"):
        assert call("--workload", str(path), "--gpu", "A100 80GB", "--precision", asked) == 0
        row = capsys.readouterr().out.splitlines()[2].split("yes")[1].split()
        memory.append(float(row[0]))
        largest.append(float(row[2].removesuffix("x")))
    assert memory[1] < 0.7 * memory[0]
    assert largest[1] == pytest.approx(largest[0] / 0.6, rel=0.02)


def test_all_names_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--list") == 0
    assert len(capsys.readouterr().out.splitlines()) > 100


@pytest.mark.parametrize(
    "words",
    [
        [], ["--gpu", "4095", "train.py"], ["--count", "0", "train.py"], ["--count", "two", "train.py"],
        ["missing.py"], ["--workload", "missing.json"], ["--precision", "fp7", "train.py"],
        ["--workload", "w.json", "train.py"], ["--measured-on", "V100", "train.py"],
    ],
)  # fmt: skip
def test_wrong_words_are_refused_before_anything_runs(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(UserError):
        call(*words)
