"""Arguments of DistributedDataParallel: which levers set them where, and where they leave them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from hotlap.levers import Lever
from hotlap.levers.bucket_size import BucketSize
from hotlap.levers.buffer_broadcast import BufferBroadcast
from hotlap.levers.gradient_views import GradientViews
from hotlap.levers.static_graph import StaticGraph
from hotlap.levers.unused_parameters import UnusedParameters
from hotlap.probe.facts import wrapped_with
from hotlap.record import Run, Scalar
from hotlap.source import patch
from tests.conformance.recorded import run_of
from tests.edits.sites import sites
from tests.ranks_as_threads import in_own_process
from tests.sample_runs import machine

SCRIPT = """\
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.Adam(model.parameters())
model(torch.ones(1, 4)).sum().backward()
"""

TRAINER = """\
from transformers import Trainer, TrainingArguments

args = TrainingArguments("out", max_steps=9)
trainer = Trainer(model, args, train_dataset=data)
trainer.train()  # DistributedDataParallel() is made in there
"""

DETAIL: dict[str, Scalar] = {
    "finds_unused": True,
    "static_graph": False,
    "gradient_views": False,
    "gradient_mb": 60.0,
    "sends_buffers": "forward_sync_buffers",
    "batch_statistics": False,
}


def run(tmp_path: Path, text: str, **detail: Scalar) -> Run:
    path = tmp_path / "train.py"
    path.write_text(text)
    found = run_of(path)
    told = {"data_parallel": True, **DETAIL, **detail}
    others = tuple(site for site in found.call_sites if site.calls != "forward")
    (forward,) = sites(text, "model" if "model(" in text else "train", path=str(path))
    return replace(found, world_size=2, call_sites=(*others, replace(forward, calls="forward", detail=told)))


def written(tmp_path: Path, lever: Lever, text: str, **detail: Scalar) -> str:
    """The line that the patch makes of one of these."""
    found = run(tmp_path, text, **detail)
    assert lever.rejects(found, machine()) is None
    (made,) = patch(lever.edits(found), root=tmp_path).texts.values()
    (line,) = set(made.splitlines()) - set(text.splitlines())
    return line


@pytest.mark.parametrize(
    ("lever", "argument"),
    [
        (StaticGraph(), "static_graph=True"),
        (BufferBroadcast(), "forward_sync_buffers=False"),
        (GradientViews(), "gradient_as_bucket_view=True"),
        (BucketSize(megabytes=5), "bucket_cap_mb=5"),
    ],
    ids=str,
)
def test_it_is_an_argument_more_and_what_the_script_chose_stays(tmp_path: Path, lever: Lever, argument: str) -> None:
    assert written(tmp_path, lever, SCRIPT) == f"model = DistributedDataParallel(nn.Linear(4, 2), {argument})"
    chosen = SCRIPT.replace("nn.Linear(4, 2))", f"nn.Linear(4, 2), {argument.partition('=')[0]}=chosen)")
    reason = lever.rejects(run(tmp_path, chosen), machine())
    assert reason == "The script makes no DistributedDataParallel, or chooses this itself."


def test_the_search_for_unused_parameters_is_turned_off_where_it_is_on(tmp_path: Path) -> None:
    on = SCRIPT.replace("nn.Linear(4, 2))", "nn.Linear(4, 2), find_unused_parameters=True)")
    line = written(tmp_path, UnusedParameters(), on)
    assert line == "model = DistributedDataParallel(nn.Linear(4, 2), find_unused_parameters=False)"
    assert UnusedParameters().rejects(run(tmp_path, SCRIPT), machine()) is not None


@pytest.mark.parametrize(
    ("lever", "argument"),
    [
        (UnusedParameters(), "ddp_find_unused_parameters=False"),
        (StaticGraph(), "ddp_static_graph=True"),
        (BufferBroadcast(), "ddp_broadcast_buffers=False"),
        (BucketSize(megabytes=100), "ddp_bucket_cap_mb=100"),
    ],
    ids=str,
)
def test_hugging_faces_trainer_has_words_of_its_own(tmp_path: Path, lever: Lever, argument: str) -> None:
    assert written(tmp_path, lever, TRAINER) == f'args = TrainingArguments("out", max_steps=9, {argument})'
    chosen = TRAINER.replace("max_steps=9", f"{argument.partition('=')[0]}=chosen")
    assert "chooses" in (lever.rejects(run(tmp_path, chosen), machine()) or "")


@pytest.mark.parametrize(
    ("lever", "text", "detail"),
    [
        (UnusedParameters(), SCRIPT, {"finds_unused": False}),
        (StaticGraph(), SCRIPT, {"finds_unused": False}),
        (StaticGraph(), SCRIPT, {"static_graph": True}),
        (StaticGraph(), SCRIPT.replace("model(", "model.no_sync()\nmodel("), {}),
        (BufferBroadcast(), SCRIPT, {"sends_buffers": ""}),
        (BufferBroadcast(), SCRIPT, {"batch_statistics": True}),
        (GradientViews(), SCRIPT, {"gradient_views": True}),
        (GradientViews(), f"{SCRIPT}model.module.weight.grad.detach_()\n", {}),
        (BucketSize(), SCRIPT, {"gradient_mb": 0.9}),
    ],
)
def test_it_is_refused_in_a_sentence(tmp_path: Path, lever: Lever, text: str, detail: Mapping[str, Scalar]) -> None:
    reason = lever.rejects(run(tmp_path, text, **detail), machine())
    assert reason is not None and reason.endswith(".")
    alone = replace(run(tmp_path, text), world_size=1)
    assert lever.rejects(alone, machine()) == "One process trains here."


@pytest.mark.parametrize(
    ("total", "sizes"), [(0.5, [5]), (4.0, [1]), (30.0, [1, 5, 100]), (300.0, [5, 100, 400]), (4000.0, [100, 400])]
)
def test_sizes_part_the_gradients_otherwise_than_torch(tmp_path: Path, total: float, sizes: list[int]) -> None:
    found = BucketSize.candidates(run(tmp_path, SCRIPT, gradient_mb=total), machine())
    assert [one.megabytes for one in found] == sizes


@in_own_process
def test_how_a_model_is_wrapped_is_read_off_it() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    try:
        plain = wrapped_with(DistributedDataParallel(nn.Linear(1024, 256, bias=False)))
        assert plain == {
            "finds_unused": False,
            "static_graph": False,
            "gradient_views": False,
            "gradient_mb": 1.0,
            "sends_buffers": "",
            "batch_statistics": False,
        }
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        told = wrapped_with(DistributedDataParallel(model, find_unused_parameters=True, gradient_as_bucket_view=True))
        assert told["finds_unused"] and told["gradient_views"] and told["batch_statistics"]
        keyword = str(told["sends_buffers"])
        assert getattr(DistributedDataParallel(nn.BatchNorm1d(2)), keyword) is True
        still = DistributedDataParallel(nn.BatchNorm1d(2, track_running_stats=False))
        assert not wrapped_with(still)["batch_statistics"]
    finally:
        dist.destroy_process_group()
