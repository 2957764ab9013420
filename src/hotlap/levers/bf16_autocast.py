"""bf16-autocast: matrix products of the forward and backward pass in bfloat16."""

from collections.abc import Sequence
from typing import Any

from hotlap.levers.cards import has_float16_alone, is_before_ampere
from hotlap.levers.frameworks import in_their_words
from hotlap.levers.lever import PASSES, Lever, Numerics, Patch, Scope
from hotlap.levers.models import forward_sites, not_float32
from hotlap.record import Machine, Run
from hotlap.source import Edit, WrapStatement

# Without one of these a CPU emulates bfloat16 by conversions, and every measurement so far was slower than float32.
_CPU_FLAGS = ("amx_bf16", "avx512_bf16", "bf16")


class Bf16Autocast(Lever):
    """Runs the model under `torch.autocast(dtype=torch.bfloat16)`; its result goes on as float32.

    What: products in bfloat16 with float32 accumulation; weights, optimizer and loss stay float32. Where a framework
    trains, by its own word: `bf16=True` (Hugging Face), `precision="bf16-mixed"` (Lightning), `mixed_precision="bf16"`
    (Accelerate).
    Why: tensor cores and AMX tiles do several times more bfloat16 products a second, and half of the bytes travel.
    When it hurts: 8 bits of mantissa: other numbers, judged statistically. Chips without bfloat16 instructions get
    slower. Small layers lose more to the casts than they gain. bfloat16 has float32's range, so there is no loss scale
    to collapse as with float16 (pytorch/pytorch#40497, #43556).
    """

    scope = Scope.STEP
    numerics = Numerics.STATISTICAL
    across_ranks = True
    shortens = PASSES
    no_line = "The model returns something else than one tensor, so the cast back cannot be written as source."

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """The chip, then the present state."""
        unseen = None if forward_sites(run) else "No call of a model in the script's own source was seen."
        present = "The script runs under autocast already." if run.autocast else None
        return _lacks_bf16(run, machine) or present or not_float32(run) or unseen

    def install(self, patch: Patch) -> None:
        """CHILD: outermost calls of modules with parameters, while gradients are on."""
        import torch
        from torch.utils import _pytree

        call = torch.nn.Module.__call__
        inside = [False]

        def widened(value: Any) -> Any:
            return value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it becomes that method
            if inside[0] or torch.compiler.is_compiling() or not torch.is_grad_enabled():
                return call(self, *args, **kwargs)
            parameter = next(self.parameters(), None)
            if parameter is None:
                return call(self, *args, **kwargs)
            inside[0] = True
            try:
                with torch.autocast(parameter.device.type, dtype=torch.bfloat16):
                    result = call(self, *args, **kwargs)
            finally:
                inside[0] = False
            return widened(result) if isinstance(result, torch.Tensor) else _pytree.tree_map(widened, result)

        patch.set(torch.nn.Module, "__call__", __call__)

    def edits(self, run: Run) -> Sequence[Edit]:
        """The word of the framework that trains; else a `with` around each statement that calls a model, and
        `.float()` behind the call: none where one model returns something else than one tensor."""
        words = in_their_words(run, self.name)
        if words is not None:
            return words
        sites = forward_sites(run)
        if any(site.detail.get("returns") != "Tensor" for site in sites):
            return ()
        device = run.device_type or ("cpu" if run.device == "cpu" else "cuda")
        return tuple(
            WrapStatement(
                site=site,
                header=f'with torch.autocast("{device}", dtype=torch.bfloat16)',
                suffix=".float()",
                imports="import torch",
            )
            for site in sites
        )


def _lacks_bf16(run: Run, machine: Machine) -> str | None:
    """Why the chip that trains gains nothing by bfloat16; None where it may."""
    if run.device == "cpu" and not set(_CPU_FLAGS) & set(machine.cpu_flags):
        return f"This processor ({machine.processor}) has no bfloat16 instructions."
    if has_float16_alone(run.device):
        return (
            f"This card ({run.device}) has tensor cores for float16 alone, which needs a loss scale and is not tried: "
            'fp16=True of Trainers, "16-mixed" of Lightning, or torch.amp.GradScaler in a loop of your own.'
        )
    if is_before_ampere(run.device):
        return f"This card ({run.device}) has no bfloat16 instructions."
    return None
