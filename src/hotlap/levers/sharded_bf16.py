"""sharded-bf16: what FSDP gathers for the passes is bfloat16."""

from collections.abc import Sequence

from hotlap.levers.bf16_autocast import lacks_bf16
from hotlap.levers.data_parallel import EXCHANGE
from hotlap.levers.lever import Lever, Numerics
from hotlap.levers.models import not_float32
from hotlap.levers.no_reshard import FULLY_SHARD
from hotlap.record import Machine, Phase, Run
from hotlap.source import AddArgument, Edit, scripts

_POLICY = "MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float32)"


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
        calls = [(script, call) for script in scripts(run) for call in script.calls(*FULLY_SHARD)]
        if any(word.arg in (None, "mp_policy") for _, call in calls for word in call.keywords):
            return ()
        imports = "import torch\nfrom torch.distributed.fsdp import MixedPrecisionPolicy"
        return tuple(
            AddArgument(
                site=script.site(call, calls=FULLY_SHARD[0]), keyword="mp_policy", value=_POLICY, imports=imports
            )
            for script, call in calls
        )
