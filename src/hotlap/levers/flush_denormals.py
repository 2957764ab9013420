"""flush-denormals: the smallest numbers that the format can hold count as zero."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from hotlap.levers.lever import Lever, Numerics, Patch, Scope, arithmetic_s, behind_imports, script_sha256
from hotlap.record import Ceiling, Machine, Run
from hotlap.source import Edit
from hotlap.units import percent


@final
@dataclass(frozen=True, slots=True)
class FlushDenormals(Lever):
    """Calls `torch.set_flush_denormal(True)` before any thread is started.

    What: numbers below 1.2e-38 (float32) are taken, and stored, as zero.
    Why: processors compute with them in microcode, tens of times slower than with others. They come up where something
    dies out slowly: the moments of Adam for a weight that no longer gets a gradient shrink by a factor each step, and
    stay denormal for long. Intel's tuning guide for PyTorch names it (docs of intel-extension-for-pytorch).
    When it hurts: numbers differ below 1e-38, which is less than rounding does to any sum. The setting belongs to a
    thread and is inherited by those it starts, so it must come before the first operator, and does not reach workers
    that are started afresh (spawn). It is tried only where such numbers were found in parameters or optimizer state.
    """

    name: ClassVar[str] = "flush-denormals"
    scope: ClassVar[Scope] = Scope.PROCESS
    numerics: ClassVar[Numerics] = Numerics.ROUNDING

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Are there such numbers?"""
        if run.device != "cpu":
            return "GPUs compute with denormal numbers at full speed."
        known = [o.denormals for o in run.optimizers if o.denormals is not None]
        if not known:
            return "It is not known whether denormal numbers came up."
        if not any(known):
            return f"No denormal number was in the parameters or the optimizer's state ({percent(0.0)})."
        if script_sha256(run) is None:
            return "There is no script of the user's to change."
        return None

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """All that operators take."""
        return arithmetic_s(run) if any(o.denormals for o in run.optimizers) else 0.0

    def install(self, patch: Patch) -> None:
        """For this thread, and those that it will start."""
        import torch

        before = bool((torch.tensor([1e-310], dtype=torch.float64) * 1.0 == 0).item())
        if not torch.set_flush_denormal(True):
            raise RuntimeError("this processor cannot flush denormal numbers")

        def restore() -> None:
            torch.set_flush_denormal(before)

        patch.on_undo(restore)

    def edits(self, run: Run) -> Sequence[Edit]:
        """One line behind the imports."""
        return behind_imports(run, "torch.set_flush_denormal(True)", imports="import torch")
