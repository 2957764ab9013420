"""device-resident: the whole data set lies on the GPU, and batches are gathered there by their indices."""

from collections.abc import Sequence

from hotlap.levers.cached_dataset import CachedDataset
from hotlap.levers.loaders import DataWrapper, nothing_to_gain, saves_at_most_s
from hotlap.record import Ceiling, LoaderFacts, Machine, Phase, Run


class DeviceResident(DataWrapper):
    """Wraps map-style data sets in `hotlap.data.resident`.

    What: each item is computed once and kept, as by `cached-dataset`; after some batches all of them are copied to the
    device that the script moves its batches to, if they take no more than half of what is free there. Then a batch is
    gathered on the device, where `.to(device)` gives it: the same bytes, in the same order. What travels is the order
    of an epoch.
    Why: a copy for each batch is what remains once items are kept, and a small data set fits on any GPU; a
    training that makes two large requests an epoch instead of two small ones a step waits for none of them.
    When it hurts: memory of the device is taken from larger batches and models; batches that the script works on before
    it moves them come from the CPU as ever; data sets with random augmentation cannot be kept.
    When data change: as for cached-dataset, which looks before each epoch; items that were dropped there are dropped on
    the device.
    """

    function = "resident"

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Is there a GPU, can the items be kept, and do batches cost anything?"""
        if run.loaders and run.device == "cpu":
            return "The model runs on the CPU: its batches lie where they are needed."
        return super().refuses(run, machine)

    def leaves(self, run: Run, loader: LoaderFacts) -> str | None:
        """As cached-dataset."""
        return CachedDataset().leaves(run, loader)

    def no_room(self, run: Run, loader: LoaderFacts, machine: Machine) -> str | None:
        """As cached-dataset."""
        return CachedDataset().no_room(run, loader, machine)

    def gains_nothing(self, run: Run) -> str | None:
        """Of batches and their copies."""
        shares = [run.share(Phase.TRANSFER), run.share(Phase.INPUT)]
        share = None if None in shares else sum(each or 0.0 for each in shares)
        return nothing_to_gain("Batches and their copies take", share)

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """All that a step waits for its batch and for the copy of it."""
        return saves_at_most_s(run, ceilings) + (run.mean_phase_s(Phase.TRANSFER) or 0.0)
