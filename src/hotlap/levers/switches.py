"""What torch keeps switched off for NVIDIA's GPUs: each of these switches is a lever."""

from hotlap.levers.cards import is_before_ampere, why_not_cuda
from hotlap.levers.lever import PASSES, Lever, Numerics, Patch, Scope, set_on_purpose
from hotlap.levers.models import NO_CONVOLUTION, forward_sites
from hotlap.record import Machine, Phase, Run, SwitchFacts

# Each new shape is tried out anew, which takes 0.1 s and more; two are the full batch and the last one of an epoch.
_MOST_SHAPES = 2


class CudnnBenchmark(Lever):
    """Sets `torch.backends.cudnn.benchmark = True` where the model's shapes stay the same.

    What: the first convolution of each shape runs all kernels that cuDNN has for it.
    Why: cuDNN's own guess is often not the fastest (PyTorch's tuning guide).
    When it hurts: with changing shapes each new one costs more than it can bring: 22 ms became 0.6 to 2.3 s
    (pytorch/pytorch#2759; pytorch/vision#5985), so it is refused there, and a script that has it on is told. Trying
    needs memory: 9 GB in the first steps, 1.4 GB afterwards (pytorch/pytorch#15872), so a batch that only just fits no
    longer does. The choice depends on timing, so two runs differ by rounding.
    """

    numerics = Numerics.ROUNDING
    shortens = (*PASSES, Phase.SYNC)
    line = "torch.backends.cudnn.benchmark = True"

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Convolutions on a GPU, with shapes that are known."""
        elsewhere = why_not_cuda(run, "cuDNN is NVIDIA's library for GPUs")
        if elsewhere is not None:
            return elsewhere
        if not forward_sites(run, "convolutions"):
            return NO_CONVOLUTION
        if run.switches is None or run.shapes is None:
            return "It was not looked at how many shapes the model is given."
        return _refuses(run.switches, run.shapes.num_shapes) or set_on_purpose(run, "cudnn.benchmark")


def _refuses(switches: SwitchFacts, num_shapes: int) -> str | None:
    """What speaks against it, of what is set and of the shapes."""
    if switches.cudnn_deterministic or switches.deterministic:
        return "The script asks for deterministic kernels."
    changing = num_shapes > _MOST_SHAPES
    if switches.cudnn_benchmark:
        advice = f", with {num_shapes} different shapes, each of which is tried out: take it out" if changing else ""
        return f"It is on already{advice}."
    if changing:
        return f"The model was given {num_shapes} different shapes, and each would be tried out anew."
    return None


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
    line = 'torch.set_float32_matmul_precision("high")'

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
