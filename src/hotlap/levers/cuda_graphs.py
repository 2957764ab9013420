"""cuda-graphs: the kernels of a step are recorded once and launched together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from hotlap.levers.cards import why_not_cuda
from hotlap.levers.compiling import cannot_compile, compile_edits
from hotlap.levers.frameworks import in_their_words
from hotlap.levers.lever import PASSES, Lever, Numerics
from hotlap.levers.models import NO_NAME
from hotlap.record import Machine, Phase, Run
from hotlap.source import Edit

# One graph for each: the full batch, and the last one of an epoch.
_MOST_SHAPES = 2


@final
@dataclass(frozen=True, slots=True)
class CudaGraphs(Lever):
    """Calls `model.compile(backend="cudagraphs")` before the optimizer is made.

    What: forward and backward pass run the kernels that they ran before, recorded once as CUDA graphs. No kernel is
    written, so no compiler is needed and it starts in seconds (lever `compile` fuses kernels as well).
    Why: launching a kernel takes the host 5 to 20 us, longer than many a small kernel runs; a graph is launched as one
    (NVIDIA's guide to CUDA graphs in PyTorch: often 1.2 to 3 times).
    When it hurts: each new shape is recorded anew and takes memory of its own (pytorch/pytorch#188150, #128424), so it
    is refused where shapes change. What the model does on the CPU, or reads from the device, breaks the graph in
    pieces. An output is overwritten by the next call: a script that keeps one without copying it sees other numbers
    later. Losses were wrong in silence (#187715), so the gate compares them.
    """

    numerics: ClassVar[Numerics] = Numerics.ROUNDING
    shortens: ClassVar[Sequence[Phase]] = PASSES  # what the host spends on them; waiting for the device stays
    no_line: ClassVar[str] = NO_NAME
    compiles: ClassVar[bool] = True

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Where the model runs, what is on already, shapes, and whether it can be written."""
        elsewhere = why_not_cuda(run, "CUDA graphs are launched on GPUs of NVIDIA's and AMD's")
        if elsewhere is not None:
            return elsewhere
        if run.compiled:
            return "The script uses torch.compile already, whose mode reduce-overhead records graphs."
        if run.shapes is None:
            return "It was not looked at how many shapes the model is given."
        if run.shapes.num_shapes > _MOST_SHAPES:
            return f"The model was given {run.shapes.num_shapes} different shapes, and each would be recorded anew."
        return cannot_compile(run)

    def edits(self, run: Run) -> Sequence[Edit]:
        """A statement in front of each optimizer, or the argument of Hugging Face's Trainer."""
        return in_their_words(run, self.name) or tuple(compile_edits(run, 'backend="cudagraphs"'))
