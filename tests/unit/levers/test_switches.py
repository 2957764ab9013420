"""Levers that switch something for the whole process: what is on, what is there, what it comes to."""

from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.levers.switches import CudnnBenchmark, Tf32
from hotlap.record import Run, ShapeFacts, SwitchFacts
from tests.conformance.recorded import OWN, run_of
from tests.sample_runs import machine


def on_a_gpu(*, shapes: int = 1, **switches: object) -> Run:
    facts = SwitchFacts(**switches)  # type: ignore[arg-type]
    shape_facts = ShapeFacts(num_steps=100, num_shapes=shapes, num_new_late=0)
    run = run_of(OWN["channels-last"])
    return replace(run, device="NVIDIA H200", switches=facts, shapes=shape_facts)


def with_line(line: str, folder: Path) -> Run:
    """The run on a GPU of a script that begins with another line."""
    path = folder / "train.py"
    path.write_text(f"{line}\n{OWN['channels-last'].read_text()}")
    return replace(run_of(path), device="NVIDIA H200", switches=SwitchFacts())


# tf32


@pytest.mark.parametrize(
    "name", ["NVIDIA H200", "NVIDIA A100-SXM4-40GB", "NVIDIA RTX 6000 Ada Generation", "NVIDIA L4"]
)
def test_tf32_is_for_ampere_and_later(name: str) -> None:
    assert Tf32().rejects(replace(on_a_gpu(), device=name), machine()) is None


@pytest.mark.parametrize("name", ["Tesla V100-SXM2-16GB", "Tesla T4", "NVIDIA GeForce GTX 1080 Ti", "Quadro RTX 6000"])
def test_tf32_is_not_for_cards_before_ampere(name: str) -> None:
    reason = Tf32().rejects(replace(on_a_gpu(), device=name), machine())
    assert reason is not None and name in reason


def test_tf32_respects_what_the_script_chose() -> None:
    assert Tf32().rejects(on_a_gpu(matmul_precision="medium"), machine()) is not None
    assert Tf32().rejects(on_a_gpu(environment={"NVIDIA_TF32_OVERRIDE": "0"}), machine()) is not None


@pytest.mark.parametrize(
    "line", ["torch.backends.cuda.matmul.allow_tf32 = False", 'torch.set_float32_matmul_precision("highest")']
)
def test_tf32_leaves_a_script_alone_that_says_no(line: str, tmp_path: Path) -> None:
    reason = Tf32().rejects(with_line(line, tmp_path), machine())
    assert reason is not None and reason.endswith(" on purpose, in line 1.")
    assert Tf32().rejects(with_line(f"# {line}", tmp_path), machine()) is None


# cudnn-benchmark


def test_benchmark_is_for_shapes_that_stay() -> None:
    assert CudnnBenchmark().rejects(on_a_gpu(shapes=2), machine()) is None
    reason = CudnnBenchmark().rejects(on_a_gpu(shapes=60), machine())
    assert reason is not None and "60 different shapes" in reason


def test_benchmark_that_is_on_with_changing_shapes_is_told() -> None:
    reason = CudnnBenchmark().rejects(on_a_gpu(shapes=60, cudnn_benchmark=True), machine())
    assert reason is not None and "take it out" in reason


def test_benchmark_leaves_a_script_alone_that_says_no(tmp_path: Path) -> None:
    reason = CudnnBenchmark().rejects(with_line("torch.backends.cudnn.benchmark = False", tmp_path), machine())
    assert reason == "The script sets cudnn.benchmark on purpose, in line 1."


def test_benchmark_leaves_deterministic_scripts_alone() -> None:
    assert CudnnBenchmark().rejects(on_a_gpu(cudnn_deterministic=True), machine()) is not None
