"""Arguments of DistributedDataParallel: which levers set them where, and where they leave them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from hotlap.levers import Lever
from hotlap.levers.data_parallel import BufferBroadcast, GradientCompression, UnusedParameters
from hotlap.probe.facts import wrapped_with
from hotlap.record import OperatorWindow, Phase, Run, Scalar
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
    "hooked": False,
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


def test_it_is_an_argument_more_and_what_the_script_chose_stays(tmp_path: Path) -> None:
    line = written(tmp_path, BufferBroadcast(), SCRIPT)
    assert line == "model = DistributedDataParallel(nn.Linear(4, 2), forward_sync_buffers=False)"
    chosen = SCRIPT.replace("nn.Linear(4, 2))", "nn.Linear(4, 2), forward_sync_buffers=chosen)")
    reason = BufferBroadcast().rejects(run(tmp_path, chosen), machine())
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
        (BufferBroadcast(), "ddp_broadcast_buffers=False"),
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
        (BufferBroadcast(), SCRIPT, {"sends_buffers": ""}),
        (BufferBroadcast(), SCRIPT, {"batch_statistics": True}),
        (GradientCompression(), SCRIPT, {"hooked": True}),
        (GradientCompression(), f"{SCRIPT}model.register_comm_hook(None, hook)\n", {}),
        (GradientCompression(), f"{SCRIPT}model._register_builtin_comm_hook(hook)\n", {}),
        (GradientCompression(), SCRIPT.replace("model = ", "model = torch.compile(").replace("2))", "2)))", 1), {}),
        (GradientCompression(), TRAINER, {}),
    ],
)
def test_it_is_refused_in_a_sentence(tmp_path: Path, lever: Lever, text: str, detail: Mapping[str, Scalar]) -> None:
    reason = lever.rejects(run(tmp_path, text, **detail), machine())
    assert reason is not None and reason.endswith(".")
    alone = replace(run(tmp_path, text), world_size=1)
    assert lever.rejects(alone, machine()) == "One process trains here."


def test_half_precision_is_a_line_behind_the_one_that_wraps(tmp_path: Path) -> None:
    own = SCRIPT.replace("model = Dist", "self.model: Any = Dist")
    for text, name in ((SCRIPT, "model"), (own, "self.model")):
        found = run(tmp_path, text)
        (made,) = patch(GradientCompression().edits(found), root=tmp_path).texts.values()
        (wraps,) = [line for line in text.splitlines() if "= Dist" in line]
        assert f"{wraps}\n{name}.register_comm_hook({name}.process_group, fp16_compress_hook)\n" in made
        assert "ddp_comm_hooks.default_hooks import fp16_compress_hook\n" in made


def test_what_is_half_already_is_not_halved(tmp_path: Path) -> None:
    found = run(tmp_path, SCRIPT)
    half = replace(found, optimizers=tuple(replace(one, dtypes=("bfloat16",)) for one in found.optimizers))
    assert GradientCompression().rejects(half, machine()) == "The parameters are not all float32."


@pytest.mark.parametrize(
    ("device", "formats"),
    [("cpu", ["fp16"]), ("Tesla V100-SXM2-16GB", ["fp16"]), ("NVIDIA H200", ["bf16", "fp16"])],
)
def test_bfloat16_is_sent_where_torch_takes_it(tmp_path: Path, device: str, formats: list[str]) -> None:
    found = GradientCompression.candidates(replace(run(tmp_path, SCRIPT), device=device), machine())
    assert [one.dtype for one in found] == formats


def test_it_saves_what_is_not_hidden_at_most(tmp_path: Path) -> None:
    told = run(tmp_path, SCRIPT)
    assert GradientCompression().saves_at_most_s(told, ()) == told.mean_phase_s(Phase.BACKWARD)
    held = replace(told, phase_s={**told.phase_s, Phase.COMMUNICATION: (0.0001,) * len(told.step_s)})
    assert GradientCompression().saves_at_most_s(held, ()) == pytest.approx(0.0001)
    window = OperatorWindow(num_steps=4, wall_s=0.03, operators=(), num_calls=0, communication_exposed_s=0.0)
    assert GradientCompression().saves_at_most_s(replace(held, operators=window), ()) == 0.0


@in_own_process
def test_how_a_model_is_wrapped_is_read_off_it() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    try:
        plain = wrapped_with(DistributedDataParallel(nn.Linear(2, 2)))
        assert plain == {"finds_unused": False, "hooked": False, "sends_buffers": "", "batch_statistics": False}
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        told = wrapped_with(DistributedDataParallel(model, find_unused_parameters=True))
        assert told["finds_unused"] and told["batch_statistics"]
        keyword = str(told["sends_buffers"])
        assert getattr(DistributedDataParallel(nn.BatchNorm1d(2)), keyword) is True
        still = DistributedDataParallel(nn.BatchNorm1d(2, track_running_stats=False))
        assert not wrapped_with(still)["batch_statistics"]
        still.register_comm_hook(None, allreduce_hook)
        assert wrapped_with(still)["hooked"]
    finally:
        dist.destroy_process_group()


@in_own_process
def test_the_line_has_gradients_sent_in_half_precision(tmp_path: Path) -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    try:
        (made,) = patch(GradientCompression().edits(run(tmp_path, SCRIPT)), root=tmp_path).texts.values()
        names: dict[str, Any] = {}
        exec(made, names)
        model = names["model"]
        model.zero_grad()
        model(torch.full((1, 4), 1 / 3)).sum().backward()
        assert set(model.module.weight.grad.flatten().tolist()) == {torch.tensor(1 / 3).half().item()}
    finally:
        dist.destroy_process_group()
