"""device-resident: the whole data set lies on the GPU, and batches are gathered there by their indices."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from hotlap.levers.cached_dataset import can_be_kept, why_not_kept
from hotlap.levers.lever import Lever, Numerics, Scope
from hotlap.levers.loaders import MIN_SHARE, NO_LINE, NO_LOADER, refused_by_all, saves_at_most_s, wrapping_edits
from hotlap.record import Ceiling, Machine, Phase, Run
from hotlap.source import Edit
from hotlap.units import percent


@final
@dataclass(frozen=True, slots=True)
class DeviceResident(Lever):
    """Wraps map-style data sets in `hotlap.data.resident`.

    What: each item is computed once and kept, as by `cached-dataset`; after some batches all of them are copied to the
    device that the script moves its batches to, if they take no more than half of what is free there. Then a batch is
    gathered on the device, where `.to(device)` gives it: the same bytes, in the same order. What travels is the order
    of an epoch.
    Why: a copy for each batch is what remains once items are kept, and a small data set fits on any GPU; a
    training that makes two large requests an epoch instead of two small ones a step waits for none of them.
    When it hurts: memory of the device is taken from larger batches and models; batches that the script works on before
    it moves them come from the CPU as ever; data sets with random augmentation cannot be kept.
    What changes: as for cached-dataset, which looks before each epoch; items that were dropped there are dropped on the
    device.
    """

    name: ClassVar[str] = "device-resident"
    scope: ClassVar[Scope] = Scope.LOADER
    numerics: ClassVar[Numerics] = Numerics.EXACT
    function: ClassVar[str] = "resident"

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Is there a GPU, can the items be kept, and do batches cost anything?"""
        if not run.loaders:
            return NO_LOADER
        if run.device == "cpu":
            return "The model runs on the CPU: its batches lie where they are needed."
        refused = refused_by_all(run, lambda loader: why_not_kept(loader, machine))
        if refused is not None:
            return refused
        shares = [run.share(Phase.TRANSFER), run.share(Phase.INPUT)]
        share = None if None in shares else sum(each or 0.0 for each in shares)
        if share is not None and share < MIN_SHARE:
            return f"Batches and their copies take {percent(share)} of a step, so there is nothing to gain."
        return None if self.edits(run) else NO_LINE

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """All that a step waits for its batch and for the copy of it."""
        return saves_at_most_s(run, ceilings) + (run.mean_phase_s(Phase.TRANSFER) or 0.0)

    def edits(self, run: Run) -> Sequence[Edit]:
        """`resident(...)` around the data set of each loader that is served."""
        return wrapping_edits(run, filter(can_be_kept, run.loaders), "resident")
