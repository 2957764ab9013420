"""What is sharded by FSDP2 gets a policy of mixed precision, unless the script has chosen."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.levers.sharded import ShardedBf16
from hotlap.source import patch
from tests.conformance.recorded import run_of
from tests.sample_runs import machine

HEAD = """\
from torch.distributed.fsdp import fully_shard

"""
POLICY = "MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float32)"
CHIP = replace(machine(), cpu_flags=("amx_bf16",))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("fully_shard(model)", f"fully_shard(model, mp_policy={POLICY})"),
        (
            "for block in model.blocks:\n    fully_shard(block, mesh=mesh)\nfully_shard(model, mesh=mesh)",
            f"for block in model.blocks:\n    fully_shard(block, mesh=mesh, mp_policy={POLICY})\n"
            f"fully_shard(model, mesh=mesh, mp_policy={POLICY})",
        ),
        ("fully_shard(block)\nfully_shard(model, mp_policy=policy)", None),
        ("fully_shard(model, **settings)", None),
        ("model = wrap(model)", None),
    ],
)
def test_each_part_gets_the_policy_where_none_has_one(tmp_path: Path, before: str, after: str | None) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"{HEAD}{before}\n")
    run = replace(run_of(path), world_size=2)
    edits = ShardedBf16().edits(run)
    assert (ShardedBf16().rejects(run, CHIP) is None) == bool(edits) == bool(after)
    if after is None:
        return
    text = patch(edits, root=tmp_path).texts[str(path)]
    ast.parse(text)
    assert re.sub(r",\n +mp", ", mp", text).endswith(f"{after}\n"), "but for a line of its own where it is long"
    assert "import torch\n" in text
    assert "MixedPrecisionPolicy\n" in text or "MixedPrecisionPolicy, fully_shard\n" in text


def test_it_is_refused_where_it_cannot_bring_anything(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"{HEAD}fully_shard(model)\n")
    run = replace(run_of(path), world_size=2)
    assert ShardedBf16().rejects(replace(run, world_size=1), CHIP) == "One process trains here."
    assert ShardedBf16().rejects(replace(run, autocast=True), CHIP) == "The script runs under autocast already."
    assert "bfloat16" in (ShardedBf16().rejects(run, replace(CHIP, cpu_flags=())) or "")
