"""Levers that say where things run: the device, and the core of each thread."""

from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.levers.affinity import Affinity
from hotlap.levers.device import Device
from hotlap.levers.pin_and_overlap import PinAndOverlap
from hotlap.record import Run, ShapeFacts
from tests.conformance.recorded import OWN, SCRIPTS, run_of
from tests.sample_runs import loader, machine, optimizer

ASKS = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'


def on_gpu(folder: Path, text: str) -> Run:
    path = folder / "train.py"
    path.write_text(f"import torch\n{text}model = torch.nn.Linear(2, 1)\nmodel(x)\n")
    return replace(run_of(path), device="NVIDIA H200")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (ASKS, None),
        ("if torch.cuda.is_available():\n    model.cuda()\n", None),
        ("x.cuda()\n", "does not ask"),
        (ASKS + "x.cuda()\n", "Line 3 uses a GPU"),
        (ASKS + "y = x.to('cuda:0')\n", "Line 3 uses a GPU"),
        ("device = 'cpu'\n", "does not ask"),
    ],
)
def test_a_gpu_is_hidden_only_from_scripts_that_ask_for_one(tmp_path: Path, text: str, reason: str | None) -> None:
    found = Device(to="cpu").rejects(on_gpu(tmp_path, text), machine())
    assert (found is None) if reason is None else (found is not None and reason in found)


def test_a_large_model_stays_on_the_gpu(tmp_path: Path) -> None:
    run = on_gpu(tmp_path, ASKS)
    large = replace(run, optimizers=(replace(optimizer(), num_elements=10_000_000),))
    found = Device(to="cpu").rejects(large, machine())
    assert found is not None and "million parameters" in found
    assert Device.candidates(run, machine()) == (Device(to="cpu"),)


def test_hiding_the_gpu_overrides_what_was_visible() -> None:
    assert Device(to="cpu").environment({"CUDA_VISIBLE_DEVICES": "0"}) == {"CUDA_VISIBLE_DEVICES": ""}
    assert Device(to="cpu").environment({"CUDA_VISIBLE_DEVICES": ""}) == {}
    assert Device(to="cuda").environment({}) == {}


def test_an_idle_gpu_is_tried_where_nothing_would_stay_behind() -> None:
    with_gpu = replace(machine(), gpus=("NVIDIA H200",))
    run = replace(run_of(OWN["zero-grad-none"]), loaders=())
    assert Device.candidates(run, with_gpu) == (Device(to="cuda"),)
    assert Device(to="cuda").rejects(run, with_gpu) is None
    names = replace(run_of(OWN["deferred-scalars"]), loaders=())
    for other, why in ((replace(run, loaders=(loader(),)), "DataLoader"), (names, "names devices")):
        found = Device(to="cuda").rejects(other, with_gpu)
        assert found is not None and why in found
    found = Device(to="cuda").rejects(run, machine())
    assert found is not None and "no GPU" in found


def test_threads_are_bound_where_there_are_cores_and_no_workers() -> None:
    many = replace(machine(), num_cores=8, usable_cores=8.0)
    run = replace(run_of(SCRIPTS[0]), num_threads=8)
    assert Affinity().rejects(run, many) is None
    workers = replace(run, loaders=(replace(loader(), num_workers=2),))
    for other, where, why in (
        (run, machine(), "2 cores"),
        (replace(run, num_threads=1), many, "1 threads"),
        (workers, many, "workers"),
        (run, replace(many, system="Darwin"), "Darwin"),
        (replace(run, device="NVIDIA H200"), many, "GPU"),
    ):
        found = Affinity().rejects(other, where)
        assert found is not None and why in found


def test_a_choice_of_cores_is_left_as_it_is() -> None:
    assert Affinity().environment({}) == {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}
    assert Affinity().environment({"GOMP_CPU_AFFINITY": "0-3"}) == {}


def test_processes_that_train_together_keep_their_device_and_their_cores() -> None:
    run = replace(run_of(OWN["zero-grad-none"]), loaders=(), num_threads=8, world_size=2)
    many = replace(machine(), usable_cores=16.0, gpus=("NVIDIA H200",))
    moved, bound = Device(to="cuda").rejects(run, many), Affinity().rejects(run, many)
    assert moved is not None and moved.startswith("Several processes train together")
    assert bound is not None and bound.startswith("Several processes train together")
    alone = replace(run, world_size=1)
    assert Device(to="cuda").rejects(alone, many) is None
    assert Affinity().rejects(alone, many) is None


def test_sizes_that_keep_changing_are_not_pinned_again_and_again() -> None:
    run = replace(run_of(SCRIPTS[0]), device="NVIDIA H200", loaders=(replace(loader(), item_bytes=1 << 20),))
    settled = replace(run, shapes=ShapeFacts(num_steps=100, num_shapes=20, num_new_late=2))
    churning = replace(run, shapes=ShapeFacts(num_steps=100, num_shapes=60, num_new_late=40))
    assert PinAndOverlap().rejects(settled, machine()) is None
    found = PinAndOverlap().rejects(churning, machine())
    assert found is not None and "60 different shapes" in found
