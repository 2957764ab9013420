"""Comparing predictions with a GPU that is there: the arithmetic, with a stand-in for the GPU."""

import os
import sys
from collections.abc import Sequence
from math import log
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hotlap.errors import ScriptFailed
from hotlap.predict import Workload
from hotlap.predict.catalogue import cpu
from hotlap.record import Interval
from tests.benchmark_files import benchmark


@pytest.fixture(scope="module")
def reality() -> ModuleType:
    return benchmark("predict/reality.py")


class StandIn:
    """A GPU of which each step takes `step_s`, beside a CPU that takes two seconds; it notes what was asked."""

    def __init__(self, reality: ModuleType, step_s: float = 0.01) -> None:
        self.reality, self.step_s = reality, step_s
        self.asked: list[tuple[tuple[str, ...], int]] = []
        self.saved: list[list[float | None]] = []

    def run(self, words: Sequence[str], num_gpus: int) -> Any:
        self.asked.append((tuple(words), num_gpus))
        work = Workload.from_totals(flop=1e12, memory_bytes=2e10, num_kernels=300, parameter_bytes=1e8)
        if num_gpus == 0:
            return self.reality.Seen(work=work, device=cpu("i5", cores=12), step_s=2.0)
        return self.reality.Seen(work=work, device="RTX 3090", step_s=self.step_s)

    def save(self, study: Any) -> None:
        self.saved.append([row.truth_s for row in study.rows])

    def study(self, *, num_gpus: int = 1) -> Any:
        return self.reality.Study(device="RTX 3090", num_gpus=num_gpus, run=self.run, save=self.save)


def row(reality: ModuleType, low: float, mid: float, high: float) -> Any:
    return reality.Row(script="mlp", question="from nothing", device="RTX 3090", low_s=low, mid_s=mid, high_s=high)


def test_a_truth_is_judged_by_the_logarithm_and_by_the_interval(reality: ModuleType) -> None:
    judged = row(reality, 0.8, 1.0, 1.3).judged(1.25)
    assert judged.off == pytest.approx(log(1 / 1.25), abs=1e-3)
    assert judged.inside is True
    assert row(reality, 0.8, 1.0, 1.3).judged(1.31).inside is False


def test_a_speed_up_becomes_a_step_with_its_ends_turned_round(reality: ModuleType) -> None:
    step = reality.slower(3.0, Interval(low=1.0, mid=1.5, high=2.0))
    assert (step.low, step.mid, step.high) == (1.5, 2.0, 3.0)


def test_every_prediction_is_kept_before_the_run_that_judges_it(reality: ModuleType) -> None:
    machine = StandIn(reality)
    study = machine.study()
    study.judge("mlp", 64)
    assert [gpus for _, gpus in machine.asked] == [0, 1, 1], "first without the GPU"
    # Saved once before and once after each run on the GPU.
    assert [truths.count(None) for truths in machine.saved] == [2, 0, 1, 0]
    assert all(row.truth_s == 0.01 for row in study.rows)
    assert machine.asked[-1][0] == ("mlp", "--batch", "64", "--precision", "bf16")


def test_all_gpus_of_a_machine_are_tried_together(reality: ModuleType) -> None:
    machine = StandIn(reality)
    study = machine.study(num_gpus=4)
    study.judge("mlp", 64)
    assert machine.asked[-1] == (("mlp", "--batch", "64"), 4)
    assert study.rows[-1].question == "from a step here, 4 GPUs"
    assert study.rows[-1].mid_s > 0.01, "gradients have to be added up"


def test_the_summary_counts_only_what_ran(reality: ModuleType) -> None:
    study = StandIn(reality).study()
    assert study.summary() == {"num": 0}
    study.rows = [row(reality, 0.9, 1.0, 1.1).judged(truth) for truth in (1.0, 1.05, 2.0)] + [row(reality, 1, 2, 3)]
    found = study.summary()
    assert found["num"] == 3
    assert found["median"] == pytest.approx(log(1.05), abs=1e-3)
    assert found["p90"] == pytest.approx(log(2.0), abs=1e-3)
    assert found["coverage"] == pytest.approx(2 / 3, abs=1e-3)


def test_without_a_gpu_it_says_so_and_measures_nothing(
    reality: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reality, "gpus_here", list)
    monkeypatch.setattr(sys, "argv", ["reality.py"])
    assert reality.main() == 2
    assert "no GPU" in capsys.readouterr().err


def test_a_script_that_fails_is_named_and_the_others_run(
    reality: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = StandIn(reality)

    def run(words: Sequence[str], num_gpus: int) -> Any:
        if words[0] == "convolutions":
            raise ScriptFailed("out of memory", output="")
        return machine.run(words, num_gpus)

    monkeypatch.setattr(reality, "gpus_here", lambda: ["RTX 3090"])
    monkeypatch.setattr(reality, "run", run)
    monkeypatch.setattr(reality, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["reality.py"])
    assert reality.main() == 1
    text = (tmp_path / "reality-rtx-3090.json").read_text()
    assert "convolutions: out of memory" in text
    assert '"script": "transformer"' in text
    assert "measured" in capsys.readouterr().out


def test_the_gpu_is_hidden_only_while_a_step_is_traced_without_it(
    reality: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    with reality.seeing(0):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
    with reality.seeing(1):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
