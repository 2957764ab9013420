"""What a script can tell FSDP where it shards its model."""

from collections.abc import Sequence

from hotlap.levers.bf16_autocast import lacks_bf16
from hotlap.levers.data_parallel import EXCHANGE
from hotlap.levers.lever import Lever, Numerics
from hotlap.levers.models import not_float32
from hotlap.record import Machine, Phase, Run
from hotlap.source import AddArgument, Edit, scripts

# Full names of what shards a part of a model (FSDP2).
_FULLY_SHARD = ("torch.distributed.fsdp.fully_shard", "torch.distributed._composable.fsdp.fully_shard")
_WRAPPERS = (
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
)
# (functions, keyword, value, what it needs) where parameters are gathered once.
_ONCE = (
    (_FULLY_SHARD, "reshard_after_forward", "False", ""),
    (
        _WRAPPERS,
        "sharding_strategy",
        "ShardingStrategy.SHARD_GRAD_OP",
        "from torch.distributed.fsdp import ShardingStrategy",
    ),
)

_POLICY = "MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float32)"


class NoReshard(Lever):
    """Gathers the parameters of a sharded model once a step, not twice: `reshard_after_forward=False`.

    What: the argument of `fully_shard`, and `ShardingStrategy.SHARD_GRAD_OP` of `FullyShardedDataParallel`: ZeRO's
    second stage in place of its third. Parameters stay gathered between forward and backward pass; gradients and what
    the optimizer keeps are sharded as before.
    Why: by default a part's parameters are freed behind its forward pass and gathered again for its backward pass
    (PyTorch's documentation of `fully_shard`, "reshard_after_forward"): a third of all that is sent.
    When it hurts: the whole model lies in each device's memory during a step. Where it does not fit, the trial ends
    with an error, which is told; where it just fits, a longer sequence may not. What the script chose for itself stays.
    """

    numerics = Numerics.EXACT
    across_ranks = True
    shortens = (Phase.FORWARD, *EXCHANGE)  # parameters are gathered in both passes
    no_line = "The script shards no model by FSDP, or chooses this itself."

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Do several processes train?"""
        return "One process trains here." if run.world_size == 1 else None

    def edits(self, run: Run) -> Sequence[Edit]:
        """One argument more, for each part."""
        return [
            AddArgument(site=script.site(call, calls=functions[0]), keyword=keyword, value=value, imports=imports)
            for script in scripts(run)
            for functions, keyword, value, imports in _ONCE
            for call in script.calls(*functions)
            # The third by position is a wrapper's strategy; `fully_shard` takes one alone.
            if len(call.args) < 3 and not any(word.arg in (None, keyword) for word in call.keywords)
        ]


class ShardedBf16(Lever):
    """Gathers and computes with bfloat16 copies of a sharded model's parameters: `mp_policy=MixedPrecisionPolicy(...)`.

    What: the argument of each `fully_shard`. Shards, gradients that are summed over the processes, what each part
    returns, and the optimizer stay float32.
    Why: half of the bytes are gathered, and products are bfloat16 (PyTorch's documentation of `fully_shard`,
    "MixedPrecisionPolicy"); under autocast alone parameters travel as float32.
    When it hurts: 8 bits of mantissa: other numbers, judged statistically; unlike under autocast, all operators of the
    model compute in them. Small layers lose more to the casts than they gain. A policy of the script's own stays.
    """

    numerics = Numerics.STATISTICAL
    across_ranks = True
    shortens = (Phase.FORWARD, *EXCHANGE)
    no_line = "The script shards no model by fully_shard, or chooses this itself."

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Do several processes train float32 parameters, on chips with bfloat16?"""
        if run.world_size == 1:
            return "One process trains here."
        if run.autocast:
            return "The script runs under autocast already."
        return not_float32(run) or lacks_bf16(run, machine)

    def edits(self, run: Run) -> Sequence[Edit]:
        """One argument more, for each part; none where one of them has it, as parts of two kinds do not mix."""
        calls = [(script, call) for script in scripts(run) for call in script.calls(*_FULLY_SHARD)]
        if any(word.arg in (None, "mp_policy") for _, call in calls for word in call.keywords):
            return ()
        imports = "import torch\nfrom torch.distributed.fsdp import MixedPrecisionPolicy"
        return tuple(
            AddArgument(
                site=script.site(call, calls=_FULLY_SHARD[0]), keyword="mp_policy", value=_POLICY, imports=imports
            )
            for script, call in calls
        )
