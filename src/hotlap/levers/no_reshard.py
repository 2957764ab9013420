"""no-reshard: gathered parameters are kept from the forward pass for the backward pass."""

from collections.abc import Sequence

from hotlap.levers.data_parallel import EXCHANGE
from hotlap.levers.lever import Lever, Numerics
from hotlap.record import Machine, Phase, Run
from hotlap.source import AddArgument, Edit, scripts

FULLY_SHARD = ("torch.distributed.fsdp.fully_shard", "torch.distributed._composable.fsdp.fully_shard")
"""Full names of what shards a part of a model (FSDP2)."""
_WRAPPERS = (
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
)
_STRATEGY = "ShardingStrategy.SHARD_GRAD_OP"
_ARGUMENTS = (
    (FULLY_SHARD, "reshard_after_forward", "False", ""),
    (_WRAPPERS, "sharding_strategy", _STRATEGY, "from torch.distributed.fsdp import ShardingStrategy"),
)
"""(functions, keyword, value, what it needs)."""


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
        """Do several processes train a sharded model, and is the choice free?"""
        return "One process trains here." if run.world_size == 1 else None

    def edits(self, run: Run) -> Sequence[Edit]:
        """One argument more, for each part."""
        return [
            AddArgument(site=script.site(call, calls=functions[0]), keyword=keyword, value=value, imports=imports)
            for script in scripts(run)
            for functions, keyword, value, imports in _ARGUMENTS
            for call in script.calls(*functions)
            # The third by position is a wrapper's strategy; `fully_shard` takes one alone.
            if len(call.args) < 3 and not any(word.arg in (None, keyword) for word in call.keywords)
        ]
