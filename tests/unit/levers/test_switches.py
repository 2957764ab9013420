"""Levers that switch something for the whole process: what is on, what is there, what it comes to."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.utils.deterministic

from hotlap.levers import Patch
from hotlap.levers.allocator import Allocator
from hotlap.levers.cudnn_benchmark import CudnnBenchmark
from hotlap.levers.expandable_segments import ExpandableSegments
from hotlap.levers.flush_denormals import FlushDenormals
from hotlap.levers.no_debug import NoDebug
from hotlap.levers.tf32 import Tf32
from hotlap.record import Run, ShapeFacts, SwitchFacts
from hotlap.source import patch
from tests.conformance.recorded import OWN, run_of
from tests.sample_runs import machine, optimizer, run_with


@pytest.fixture
def installed() -> Iterator[Patch]:
    patch = Patch()
    yield patch
    patch.undo()


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


# no-debug


def test_no_debug_keeps_anomaly_mode_off_and_gives_back_what_the_script_wanted() -> None:
    installed = Patch()
    NoDebug().install(installed)
    torch.autograd.set_detect_anomaly(True)
    assert not torch.is_anomaly_enabled()
    installed.undo()
    try:
        assert torch.is_anomaly_enabled(), "the script asked for it meanwhile"
    finally:
        torch.autograd.set_detect_anomaly(False)


def test_no_debug_reaches_into_a_with_statement(installed: Patch) -> None:
    NoDebug().install(installed)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        assert not torch.is_anomaly_enabled()


def test_no_debug_leaves_deterministic_algorithms_on_and_only_stops_the_filling(installed: Patch) -> None:
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(64).isnan().all()
        NoDebug().install(installed)
        assert torch.are_deterministic_algorithms_enabled()
        assert not getattr(torch.utils.deterministic, "fill_uninitialized_memory")  # noqa: B009 - unknown to types
    finally:
        torch.use_deterministic_algorithms(False)


def script(folder: Path, text: str) -> Path:
    path = folder / "train.py"
    path.write_text(text)
    return path


def test_no_debug_leaves_a_switch_of_the_users_own_alone(tmp_path: Path) -> None:
    path = script(tmp_path, "import torch, sys\ntorch.autograd.set_detect_anomaly('--debug' in sys.argv)\n")
    run = run_of(path)
    assert run.switches is not None and run.switches.anomaly_mode
    reason = NoDebug().rejects(run, machine())
    assert reason == "What is on was not switched on by a constant in the script's own source."


@pytest.mark.parametrize(
    "text",
    [
        "from torch import autograd\nautograd.set_detect_anomaly(True)\n",
        "from torch.autograd import set_detect_anomaly as look\nlook(mode=True)\n",
        "import torch.autograd as ag\nwith ag.detect_anomaly():\n    pass\n",
    ],
)
def test_no_debug_finds_the_switch_under_any_name(tmp_path: Path, text: str) -> None:
    path = script(tmp_path, text)
    run = run_of(path)
    assert NoDebug().rejects(run, machine()) is None
    assert "set_detect_anomaly(False)" in patch(NoDebug().edits(run), root=tmp_path).texts[str(path)]


def test_no_debug_does_not_take_a_function_of_the_users_for_torchs(tmp_path: Path) -> None:
    path = script(tmp_path, "def set_detect_anomaly(on): ...\nset_detect_anomaly(True)\n")
    assert not NoDebug().edits(run_of(path))


@pytest.mark.parametrize(
    ("switches", "part"),
    [
        (None, "not looked at"),
        (SwitchFacts(), "No switch"),
        (SwitchFacts(profiler=True), "profiler of its own"),
        (SwitchFacts(launch_blocking=True), "unset it there"),
    ],
)
def test_no_debug_says_what_is_on(switches: SwitchFacts | None, part: str) -> None:
    reason = NoDebug().rejects(replace(run_with(), switches=switches), machine())
    assert reason is not None and part in reason


# flush-denormals


def test_denormals_are_flushed_and_come_back(installed: Patch) -> None:
    tiny = torch.tensor([1e-39])
    FlushDenormals().install(installed)
    assert (tiny * 0.5).item() == 0.0
    installed.undo()
    assert (tiny * 0.5).item() != 0.0


@pytest.mark.parametrize(("share", "part"), [(None, "not known"), (0.0, "No denormal number")])
def test_denormals_must_have_come_up(share: float | None, part: str) -> None:
    run = replace(run_with(), optimizers=(replace(optimizer(), denormals=share),))
    reason = FlushDenormals().rejects(run, machine())
    assert reason is not None and part in reason
    assert FlushDenormals().saves_at_most_s(run, ()) == 0


# allocator


def test_an_allocator_is_tried_for_each_library_that_is_there() -> None:
    both = replace(machine(), allocators=("libtcmalloc_minimal.so.4", "libjemalloc.so.2"))
    found = [lever.library for lever in Allocator.candidates(run_with(), both)]
    assert found == ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"]
    assert Allocator.candidates(run_with(), replace(machine(), allocators=())) == ()


def test_an_allocator_goes_behind_what_is_preloaded() -> None:
    assert Allocator().environment({"LD_PRELOAD": "a.so"}) == {"LD_PRELOAD": "a.so:libjemalloc.so.2"}
    assert Allocator().environment({"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}) == {}


def test_an_allocator_that_is_preloaded_already_is_respected() -> None:
    under = SwitchFacts(environment={"LD_PRELOAD": "/usr/lib/libtcmalloc.so.4"})
    reason = Allocator().rejects(replace(run_with(), switches=under), machine())
    assert reason == "The script runs under another malloc already."


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


# expandable-segments


def test_segments_are_for_sizes_that_change() -> None:
    assert ExpandableSegments().rejects(on_a_gpu(shapes=5), machine()) is None
    assert ExpandableSegments().rejects(on_a_gpu(shapes=1), machine()) is not None


def test_segments_leave_a_setting_of_the_users_alone() -> None:
    variable = "PYTORCH_CUDA_ALLOC_CONF"
    assert ExpandableSegments().environment({variable: "max_split_size_mb:64"}) == {}
    assert ExpandableSegments().environment({}) == {variable: "expandable_segments:True"}
    run = on_a_gpu(shapes=5, environment={variable: "max_split_size_mb:64"})
    assert ExpandableSegments().rejects(run, machine()) is not None
