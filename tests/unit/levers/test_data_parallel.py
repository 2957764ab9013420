"""How large the buckets of DistributedDataParallel are: where it is written, and what is read off a wrapped model."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from hotlap.levers.bucket_size import BucketSize
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


def run(tmp_path: Path, text: str, *, gradient_mb: float = 60.0) -> Run:
    path = tmp_path / "train.py"
    path.write_text(text)
    found = run_of(path)
    told: dict[str, Scalar] = {"data_parallel": True, "gradient_mb": gradient_mb}
    others = tuple(site for site in found.call_sites if site.calls != "forward")
    (forward,) = sites(text, "model" if "model(" in text else "train", path=str(path))
    return replace(found, world_size=2, call_sites=(*others, replace(forward, calls="forward", detail=told)))


def written(tmp_path: Path, text: str) -> str:
    """The line that the patch makes of one of these."""
    found, lever = run(tmp_path, text), BucketSize(megabytes=5)
    assert lever.rejects(found, machine()) is None
    (made,) = patch(lever.edits(found), root=tmp_path).texts.values()
    (line,) = set(made.splitlines()) - set(text.splitlines())
    return line


def test_the_size_is_an_argument_more_and_what_the_script_chose_stays(tmp_path: Path) -> None:
    assert written(tmp_path, SCRIPT) == "model = DistributedDataParallel(nn.Linear(4, 2), bucket_cap_mb=5)"
    chosen = SCRIPT.replace("nn.Linear(4, 2))", "nn.Linear(4, 2), bucket_cap_mb=chosen)")
    reason = BucketSize().rejects(run(tmp_path, chosen), machine())
    assert reason == "The script makes no DistributedDataParallel, or chooses this itself."


def test_hugging_faces_trainer_has_a_word_of_its_own(tmp_path: Path) -> None:
    assert written(tmp_path, TRAINER) == 'args = TrainingArguments("out", max_steps=9, ddp_bucket_cap_mb=5)'
    chosen = TRAINER.replace("max_steps=9", "ddp_bucket_cap_mb=chosen")
    assert "chooses" in (BucketSize().rejects(run(tmp_path, chosen), machine()) or "")


def test_it_is_refused_where_one_bucket_holds_all_or_one_process_trains(tmp_path: Path) -> None:
    small = run(tmp_path, SCRIPT, gradient_mb=0.9)
    assert BucketSize().rejects(small, machine()) == "All gradients leave in one bucket, of one megabyte at most."
    assert BucketSize().rejects(replace(small, world_size=1), machine()) == "One process trains here."


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
