"""What is sharded by FSDP keeps its parameters between the passes, unless the script has chosen."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.levers.sharded import NoReshard
from hotlap.source import patch
from tests.conformance.recorded import run_of
from tests.sample_runs import machine

HEAD = """\
import torch.distributed.fsdp as fsdp
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import fully_shard

"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("fully_shard(model)", ["fully_shard(model, reshard_after_forward=False)"]),
        (
            "for block in model.blocks:\n    fsdp.fully_shard(block, mesh=mesh)",
            ["    fsdp.fully_shard(block, mesh=mesh, reshard_after_forward=False)"],
        ),
        (
            "model = FSDP(model, group)",
            [
                "from torch.distributed.fsdp import ShardingStrategy",
                "model = FSDP(model, group, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)",
            ],
        ),
        ("fully_shard(model, reshard_after_forward=True)", []),
        ("fully_shard(model, **settings)", []),
        ("model = FSDP(model, group, strategy)", []),
        ("model = wrap(model)", []),
    ],
)
def test_what_the_script_left_open_is_written(tmp_path: Path, before: str, after: list[str]) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"{HEAD}{before}\n")
    run = replace(run_of(path), world_size=2)
    edits = NoReshard().edits(run)
    assert (NoReshard().rejects(run, machine()) is None) == bool(edits) == bool(after)
    if not edits:
        return
    patched = patch(edits, root=tmp_path)
    ast.parse(patched.texts[str(path)])
    lines = [line[1:] for line in (patched.diff or "").splitlines() if line.startswith("+") and line[1:2] != "+"]
    assert lines == after


def test_one_process_shards_nothing(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"{HEAD}fully_shard(model)\n")
    assert NoReshard().rejects(replace(run_of(path), world_size=1), machine()) == "One process trains here."
