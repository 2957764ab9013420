"""gradient-compression: DistributedDataParallel sends gradients in half precision."""

import ast
from collections.abc import Sequence
from typing import Literal, Self

from hotlap.levers.cards import is_before_ampere
from hotlap.levers.data_parallel import EXCHANGE, WRAPPERS, why_none
from hotlap.levers.lever import Lever, Numerics
from hotlap.levers.models import forward_sites, not_float32
from hotlap.record import Ceiling, Machine, Run
from hotlap.source import Edit, InsertBehind, Script, is_name, scripts

# A model takes one hook, and an error ends the training at the second.
_REGISTERS = frozenset({"register_comm_hook", "_register_builtin_comm_hook"})


class GradientCompression(Lever):
    """Sends gradients as float16 or bfloat16: `model.register_comm_hook(model.process_group, fp16_compress_hook)`.

    What: one line behind the one that wraps the model, with a communication hook that torch brings along: each bucket
    is cast, averaged over all processes and cast back (PyTorch's documentation, "DDP Communication Hooks"). Weights,
    optimizer and the passes of the model stay in float32.
    Why: half of the bytes travel. That helps where the link is slower than the backward pass can hide: over an emulated
    1 Gbit/s a perceptron of 7 MB was 1.38x as fast (1.32-1.45x; `benchmarks/ranks/scripts/training.py 1-gbit 12 32`),
    over 100 Gbit/s no gain was seen.
    When it hurts: averages are made in 11 bits of mantissa (float16) or 8 (bfloat16): other numbers, judged
    statistically. In float16 gradients below 6e-8 vanish (of a deep perceptron as torch initialises it 92% of a layer's
    did, and the gate failed it), and those above 65,504 are infinite, which many ranks or a loss scale bring nearer.
    torch takes its bfloat16 hook with NCCL and XCCL only, so on CPUs float16 alone is tried. Where the link is fast the
    casts cost more than they bring. A model bears one hook: where the script registers its own, or
    DistributedDataParallel has one for its `mixed_precision`, this is refused.
    """

    numerics = Numerics.STATISTICAL
    across_ranks = True
    shortens = EXCHANGE
    no_line = "No line of the script gives a model that DistributedDataParallel wraps a name."

    dtype: Literal["fp16", "bf16"] = "fp16"

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """The one with float32's range first, where torch has it."""
        fp16_alone = run.device == "cpu" or is_before_ampere(run.device)
        return (cls(),) if fp16_alone else (cls(dtype="bf16"), cls())

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Is there such a model, without a hook, and with gradients that can be halved?"""
        none = why_none(run)
        if none is not None:
            return none
        registers = any(script.spelled(*_REGISTERS) for script in scripts(run))
        if registers or any(site.detail.get("hooked") for site in forward_sites(run, "data_parallel")):
            return "The model has a communication hook already, and bears only one."
        return not_float32(run)

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """What the backward pass does not hide of the exchange, and half of the time on the link."""
        seen = run.exchange
        if seen is not None:
            return min(seen.exposed_s, seen.link_s / 2)
        exposed_s = run.operators.communication_exposed_s if run.operators is not None else None
        return super().saves_at_most_s(run, ceilings) if exposed_s is None else exposed_s

    def edits(self, run: Run) -> Sequence[Edit]:
        """One statement behind each that wraps a model and names it."""
        hook = f"{self.dtype}_compress_hook"
        return tuple(
            InsertBehind(
                site=script.site(call, calls=WRAPPERS[0]),
                code=f"{name}.register_comm_hook({name}.process_group, {hook})",
                imports=f"from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import {hook}",
            )
            for script in scripts(run)
            if not script.spelled(*_REGISTERS)
            for call in script.calls(*WRAPPERS)
            for name in _names(script, call)
        )


def _names(script: Script, call: ast.Call) -> Sequence[str]:
    """`self.model` of `self.model = DistributedDataParallel(...)`; none where it is no such statement."""
    statement = next(script.around(call))
    if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is call:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return [script.code(target) for target in targets if is_name(target)][:1]
    return ()
