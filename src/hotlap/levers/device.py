"""device: a model that is too small for the GPU trains on the CPU, and one that is not trains on the GPU."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, final

from hotlap.errors import UserError
from hotlap.levers.lever import Lever, Numerics, Patch, Scope, arithmetic_s, script_sha256
from hotlap.record import Ceiling, Machine, Phase, Run
from hotlap.source import Edit, InsertAfterImports, InsertAtTop, Script, scripts

_VARIABLE = "CUDA_VISIBLE_DEVICES"

_HIDE = f"""\
import os

os.environ["{_VARIABLE}"] = ""  # this model is small: the CPU takes its steps sooner; read when torch looks for a GPU
"""

_USE = 'torch.set_default_device("cuda")'

# Above this a step's arithmetic is beyond what a CPU does while a GPU launches its kernels: a layer of 1024 x 1024 has
# a million weights, six million operations a sample and step.
_MOST_ELEMENTS = 4_000_000


@final
@dataclass(frozen=True, slots=True)
class Device(Lever):
    """Moves a small model from the GPU to the CPU, or a model on the CPU to a GPU that idles.

    What: `to="cpu"` hides the GPU from torch (`CUDA_VISIBLE_DEVICES=""`), in a script that asks whether there is one;
    `to="cuda"` calls `torch.set_default_device("cuda")`, in a script that names no device at all.
    Why: a kernel takes some 5 us to launch, whatever it computes, so a tiny network's step is launches and nothing
    else, where a CPU is done sooner (keon/deep-q-learning#28; pytorch/pytorch#82707); and arithmetic that
    takes a CPU a second takes a GPU milliseconds.
    When it hurts: the devices have generators of their own, so dropout and augmentation draw other numbers: judged
    statistically. Data that the script makes with NumPy stay on the CPU and do not meet a model on the GPU: then the
    trial fails and says so. A larger model, or another machine, turns the choice around.
    """

    name: ClassVar[str] = "device"
    scope: ClassVar[Scope] = Scope.PROCESS
    numerics: ClassVar[Numerics] = Numerics.STATISTICAL

    to: Literal["cpu", "cuda"] = "cpu"

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """The other one."""
        return (cls(to="cuda" if run.device == "cpu" and machine.gpus else "cpu"),)

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Where it is, how large it is, and whether the script leaves the choice open."""
        try:
            known = scripts(run)
        except UserError as error:
            return str(error)
        if not known:
            return "There is no script of the user's to change."
        if run.world_size > 1:
            return "Several processes train together, over a backend that was chosen for the device they are on."
        return self._why_not_cpu(run, known) if self.to == "cpu" else self._why_not_cuda(run, machine, known)

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """All but the input."""
        if (run.device == "cpu") == (self.to == "cpu"):
            return 0.0
        return arithmetic_s(run) + sum(run.mean_phase_s(phase) or 0.0 for phase in (Phase.TRANSFER, Phase.SYNC))

    def environment(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """No GPU to be seen."""
        return {} if self.to == "cuda" or environ.get(_VARIABLE) == "" else {_VARIABLE: ""}

    def install(self, patch: Patch) -> None:
        """From the next tensor on; that no GPU is seen is a matter of the environment."""
        if self.to == "cpu":
            return
        import torch

        before = torch.get_default_device()
        torch.set_default_device("cuda")
        patch.on_undo(lambda: torch.set_default_device(before))

    def edits(self, run: Run) -> Sequence[Edit]:
        """One statement at the top."""
        script = script_sha256(run)
        if script is None:
            return ()
        if self.to == "cpu":
            return (InsertAtTop(path=script[0], sha256=script[1], code=_HIDE),)
        return (InsertAfterImports(path=script[0], sha256=script[1], code=_USE, imports="import torch"),)

    def _why_not_cpu(self, run: Run, known: Sequence[Script]) -> str | None:
        if run.device == "cpu":
            return "The model is on the CPU already."
        if sum(optimizer.num_elements for optimizer in run.optimizers) > _MOST_ELEMENTS:
            return f"The model has more than {_MOST_ELEMENTS // 1_000_000} million parameters, too many for a CPU."
        if not any("is_available()" in script.text for script in known):
            return "The script does not ask whether there is a GPU, so it needs one."
        named = next((line for script in known if (line := _names_a_gpu(script)) is not None), None)
        return f"Line {named} uses a GPU without asking whether there is one." if named is not None else None

    def _why_not_cuda(self, run: Run, machine: Machine, known: Sequence[Script]) -> str | None:
        if run.device != "cpu":
            return "The model is on a GPU already."
        if not machine.gpus:
            return "There is no GPU here."
        if run.loaders:
            return "The script draws its batches from a DataLoader, whose items stay on the CPU."
        if any(word in script.text for script in known for word in ("device", ".cuda(", ".to(", "numpy")):
            return "The script names devices itself, or makes data that stay on the CPU."
        return None


def _names_a_gpu(script: Script) -> int | None:
    """A line that wants a GPU whether there is one or not."""
    for node in ast.walk(script.tree):
        method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cuda"
        text = isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("cuda")
        if (method or text) and not _is_asked_for(script, node):
            return int(getattr(node, "lineno", 0))
    return None


def _is_asked_for(script: Script, node: ast.AST) -> bool:
    """It stands under a question whether there is one."""
    return any(
        isinstance(outer, ast.If | ast.IfExp) and "is_available()" in ast.unparse(outer.test)
        for outer in script.around(node)
    )
