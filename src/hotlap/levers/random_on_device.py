"""random-on-device: random numbers are drawn where they are needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from hotlap.levers.creations import RANDOM, creation_cost_s, creation_edits, install_creations
from hotlap.levers.lever import Lever, Numerics, Patch, Scope, cannot_write
from hotlap.record import Ceiling, Machine, Run
from hotlap.source import Edit


@final
@dataclass(frozen=True, slots=True)
class RandomOnDevice(Lever):
    """`torch.randn(64, 100).to(device)` in each step becomes `torch.randn(64, 100, device=device)`.

    What: `randn`, `rand`, `randint` and `randperm`, followed by `.to(device)` or `.cuda()`: the noise of a GAN or of a
    diffusion model.
    Why: the host draws one number after the other, and copies them while it waits (PyTorch's tuning guide, "create
    tensors directly on the target device").
    When it hurts: the device has a generator of its own: other numbers than as written, equally random, so training is
    judged statistically; and what the host draws afterwards (the order of the samples) changes with it.
    """

    name: ClassVar[str] = "random-on-device"
    scope: ClassVar[Scope] = Scope.STEP
    numerics: ClassVar[Numerics] = Numerics.STATISTICAL

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Where the model runs, then whether there is such a line."""
        if run.device == "cpu":
            return "The model is on the CPU, where random numbers are drawn anyway."
        return cannot_write(self, run, "No line of the script's draws random numbers and moves them at once.")

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """The script's own Python, copies, and waiting for the device."""
        return creation_cost_s(run)

    def install(self, patch: Patch) -> None:
        """On the lines concerned."""
        install_creations(patch, RANDOM)

    def edits(self, run: Run) -> Sequence[Edit]:
        """At each of them."""
        return tuple(creation_edits(run, RANDOM))
