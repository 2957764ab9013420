"""prefetch-thread: batches of iterable data sets are made in a thread beside the training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from hotlap.levers.lever import Lever, Numerics, Patch, Scope
from hotlap.levers.loaders import (
    NO_LINE,
    NO_LOADER,
    hardly_waits,
    refused_by_all,
    replace_datasets,
    saves_at_most_s,
    wrapping_edits,
)
from hotlap.record import Ceiling, LoaderFacts, Machine, Run
from hotlap.source import Edit


@final
@dataclass(frozen=True, slots=True)
class PrefetchThread(Lever):
    """Wraps iterable data sets that are read without workers in `hotlap.data.prefetched`.

    What: while the script trains on a batch, a thread makes the next two. Same batches in the same order.
    Why: without workers a DataLoader makes a batch only when it is asked for one, while nothing trains; workers cannot
    simply be added, for each would give the whole of an iterable data set (PyTorch's documentation of IterableDataset).
    When it hurts: batches that are made in pure Python share the interpreter's lock with the training, so that nothing
    is won. A data set that draws random numbers, or that goes on where it was left, is noticed and read as it was.
    """

    name: ClassVar[str] = "prefetch-thread"
    scope: ClassVar[Scope] = Scope.LOADER
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """What the loaders read, then what there is to gain."""
        if not run.loaders:
            return NO_LOADER
        refused = refused_by_all(run, _refuses)
        if refused is not None:
            return refused
        return hardly_waits(run) or (None if self.edits(run) else NO_LINE)

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """All that a step waits for its batch, or what the ceiling promises at best: whichever is more."""
        return saves_at_most_s(run, ceilings)

    def install(self, patch: Patch) -> None:
        """Replaces the data set that a DataLoader is made with; those made before are left alone."""
        from torch.utils.data import IterableDataset, IterDataPipe

        from hotlap.data import prefetched

        def wrap(dataset: Any) -> Any:
            if not isinstance(dataset, IterableDataset) or isinstance(dataset, IterDataPipe):
                return dataset
            ahead = prefetched(dataset)
            ahead.__dict__["_hotlap_notes"].on_note = patch.notes.append
            return ahead

        replace_datasets(patch, wrap)

    def edits(self, run: Run) -> Sequence[Edit]:
        """`prefetched(...)` around the data set of each loader that is served."""
        return wrapping_edits(run, [loader for loader in run.loaders if _refuses(loader) is None], "prefetched")


def _refuses(loader: LoaderFacts) -> str | None:
    if not (loader.iterable or loader.num_items is None):
        return f"{loader.dataset} has items that can be looked up: workers or a cache serve it better."
    if loader.num_workers:
        return f"{loader.dataset} is read ahead by {loader.num_workers} workers already."
    return None
