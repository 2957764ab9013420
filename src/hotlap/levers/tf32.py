"""tf32: float32 products on tensor cores."""

from collections.abc import Sequence

from hotlap.levers.cards import is_before_ampere, why_not_cuda
from hotlap.levers.frameworks import in_their_words
from hotlap.levers.lever import PASSES, Lever, Numerics, Patch, Scope, behind_imports, set_on_purpose
from hotlap.record import Machine, Phase, Run
from hotlap.source import Edit


class Tf32(Lever):
    """Lets float32 matrix products use TF32: `torch.set_float32_matmul_precision("high")`.

    What: factors are rounded to 10 bits of mantissa, sums stay float32. (Convolutions do so by default.)
    Why: tensor cores of Ampere and later make several times as many such products; torch leaves them off since 1.12
    (PyTorch's tuning guide).
    When it hurts: other numbers, judged statistically. What needs the bits (a solver, a large-scale sum of squares)
    suffers without a word. Nothing changes under autocast, nor on cards before Ampere.
    """

    scope = Scope.STEP
    numerics = Numerics.STATISTICAL
    across_ranks = True
    shortens = (*PASSES, Phase.SYNC)

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Present state, then the card."""
        elsewhere = why_not_cuda(run, "TF32 is a format of NVIDIA's GPUs")
        if elsewhere is not None:
            return elsewhere
        if is_before_ampere(run.device):
            return f"This card ({run.device}) has no tensor cores for TF32."
        if run.autocast:
            return "The script runs under autocast, which leaves few float32 products."
        if run.switches is not None and run.switches.matmul_precision != "highest":
            return f"The script chose its precision of products already ({run.switches.matmul_precision})."
        if run.switches is not None and "NVIDIA_TF32_OVERRIDE" in run.switches.environment:
            return "NVIDIA_TF32_OVERRIDE is set in the environment, and decides."
        return set_on_purpose(run, "matmul.allow_tf32", "set_float32_matmul_precision", "fp32_precision")

    def install(self, patch: Patch) -> None:
        """From the next product on."""
        import torch

        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        patch.on_undo(lambda: torch.set_float32_matmul_precision(before))

    def edits(self, run: Run) -> Sequence[Edit]:
        """One line behind the imports, or the argument of Hugging Face's Trainer, which sets it again."""
        line = behind_imports(run, 'torch.set_float32_matmul_precision("high")', imports="import torch")
        return in_their_words(run, self.name) or line
