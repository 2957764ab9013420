"""no-reshard: gathered parameters are kept from the forward pass for the backward pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

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


@final
@dataclass(frozen=True, slots=True)
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

    numerics: ClassVar[Numerics] = Numerics.EXACT
    across_ranks: ClassVar[bool] = True
    shortens: ClassVar[Sequence[Phase]] = (Phase.FORWARD, *EXCHANGE)  # parameters are gathered in both passes
    no_line: ClassVar[str] = "The script shards no model by FSDP, or chooses this itself."

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Do several processes train a sharded model, and is the choice free?"""
        return "One process trains here." if run.world_size == 1 else None

    def edits(self, run: Run) -> Sequence[Edit]:
        """One argument more, for each part."""
        found: list[Edit] = []
        for script in scripts(run):
            for call in script.calls(*FULLY_SHARD):
                if not any(word.arg in (None, "reshard_after_forward") for word in call.keywords):
                    site = script.site(call, calls=FULLY_SHARD[0])
                    found.append(AddArgument(site=site, keyword="reshard_after_forward", value="False"))
            for call in script.calls(*_WRAPPERS):
                # Its third argument by position.
                if len(call.args) < 3 and not any(word.arg in (None, "sharding_strategy") for word in call.keywords):
                    site = script.site(call, calls=_WRAPPERS[0])
                    bound = "from torch.distributed.fsdp import ShardingStrategy"
                    found.append(AddArgument(site=site, keyword="sharding_strategy", value=_STRATEGY, imports=bound))
        return found
