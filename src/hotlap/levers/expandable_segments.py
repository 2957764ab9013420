"""expandable-segments: the CUDA allocator grows its blocks instead of taking new ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from hotlap.levers.lever import Lever, Numerics, Scope, script_sha256
from hotlap.record import Ceiling, Machine, Run
from hotlap.source import Edit, InsertAtTop

_VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"
_SETTING = "expandable_segments:True"

_SET = f"""\
import os

os.environ.setdefault("{_VARIABLE}", "{_SETTING}")  # read when torch first allocates on a GPU
"""

# The most that was reported for batches of changing length is a fraction of the step; it serves to order the search.
_PART = 0.25


@final
@dataclass(frozen=True, slots=True)
class ExpandableSegments(Lever):
    """Starts the process with `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.

    What: memory is reserved once as addresses and mapped as it is needed.
    Why: with sizes that change from step to step the usual blocks break up, until the allocator has to give them back
    to the driver and wait for the device (PyTorch's notes on CUDA, "Optimizing memory usage").
    When it hurts: with sizes that stay there is nothing to win. Tensors cannot be handed to other processes by CUDA's
    inter-process handles on older torch versions. A setting of the user's own is left alone.
    """

    name: ClassVar[str] = "expandable-segments"
    scope: ClassVar[Scope] = Scope.PROCESS
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """A GPU, sizes that change, and no setting of the user's own."""
        if run.device == "cpu":
            return "The CUDA allocator serves GPUs; the model is on the CPU."
        if machine.system != "Linux":
            return f"The CUDA allocator can do this on Linux only; this is {machine.system}."
        if run.switches is not None and _VARIABLE in run.switches.environment:
            return f"{_VARIABLE} is set already."
        if run.shapes is None or run.shapes.num_shapes <= 2:
            return "The sizes of the batches were not seen to change, so the allocator's blocks fit."
        if script_sha256(run) is None:
            return "There is no script of the user's to change."
        return None

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """A part of the step."""
        return 0.0 if run.device == "cpu" or not run.step_s else _PART * run.median_step_s()

    def environment(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """The setting, unless there is one."""
        return {} if environ.get(_VARIABLE) else {_VARIABLE: _SETTING}

    def edits(self, run: Run) -> Sequence[Edit]:
        """The variable is set before torch is imported."""
        script = script_sha256(run)
        return (InsertAtTop(path=script[0], sha256=script[1], code=_SET),) if script else ()
