"""create-on-device: tensors of zeros, ones and the like are made where they are needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from hotlap.levers.creations import FILLED, creation_cost_s, creation_edits, install_creations
from hotlap.levers.lever import Lever, Numerics, Patch, Scope, cannot_write
from hotlap.record import Ceiling, Machine, Run
from hotlap.source import Edit


@final
@dataclass(frozen=True, slots=True)
class CreateOnDevice(Lever):
    """`torch.zeros(3).to(device)` in each step becomes `torch.zeros(3, device=device)`.

    What: `zeros`, `ones`, `full`, `eye` and `arange`, followed by `.to(device)` or `.cuda()`.
    Why: a tensor that is made on the host is filled there, and copied while the host waits (PyTorch's tuning guide,
    "create tensors directly on the target device").
    When it hurts: nowhere that is known. Random numbers are another lever's (random-on-device), for the device draws
    others. A tensor that is made once, outside of any loop or function, stays as it is.
    """

    name: ClassVar[str] = "create-on-device"
    scope: ClassVar[Scope] = Scope.STEP
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Where the model runs, then whether there is such a line."""
        if run.device == "cpu":
            return "The model is on the CPU, where tensors are made anyway."
        return cannot_write(self, run, "No line of the script's makes a tensor on the host and moves it at once.")

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """The script's own Python, copies, and waiting for the device."""
        return creation_cost_s(run)

    def install(self, patch: Patch) -> None:
        """On the lines concerned."""
        install_creations(patch, FILLED)

    def edits(self, run: Run) -> Sequence[Edit]:
        """At each of them."""
        return tuple(creation_edits(run, FILLED))
