"""batched-fetch: batches of data that lies in memory are gathered, not looked up item by item and collated."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from hotlap.levers.lever import Lever, Numerics, Scope
from hotlap.levers.loaders import (
    NO_LINE,
    NO_LOADER,
    hardly_waits,
    saves_at_most_s,
    trained_on,
    wrapping_edits,
)
from hotlap.record import Ceiling, LoaderFacts, Machine, Run
from hotlap.source import Edit

# What `hotlap.data.batched` serves. (It serves chains of these as well, but the record does not say what is inside of a
# `Subset`.)
KINDS = frozenset({"TensorDataset", "Tensor", "ndarray", "memmap", "list", "tuple"})


@final
@dataclass(frozen=True, slots=True)
class BatchedFetch(Lever):
    """Wraps tensors, arrays, `TensorDataset` and lists in `hotlap.data.batched`.

    What: a batch is one `index_select` per tensor in place of a Python loop over the items and a stack of the rows.
    Same samples, same order, same random draws. Items of a list are stacked by what they are, without asking for each
    level.
    Why: fetching tensors in memory one by one is most of a small model's step (pytorch/pytorch#106704, #4959).
    When it hurts: nowhere that is known; nothing is copied or kept, and what the script changes in its tensors is in
    the next batch. Classes derived from these are left alone, for their items may be something else.
    What changes: is in the next batch, for it is gathered from the script's own tensors, arrays and lists.
    """

    name: ClassVar[str] = "batched-fetch"
    scope: ClassVar[Scope] = Scope.LOADER
    numerics: ClassVar[Numerics] = Numerics.EXACT
    function: ClassVar[str] = "batched"

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """What the loaders read, then what there is to gain."""
        if not run.loaders:
            return NO_LOADER
        used = trained_on(run)
        if not any(map(_served, used)):
            return f"Items of {used[0].dataset} are made in Python, one by one; there is nothing to gather them from."
        return hardly_waits(run) or (None if self.edits(run) else NO_LINE)

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """All that a step waits for its batch, or what the ceiling promises at best: whichever is more."""
        return saves_at_most_s(run, ceilings)

    def edits(self, run: Run) -> Sequence[Edit]:
        """`batched(...)` around the data set of each loader that is served."""
        return wrapping_edits(run, filter(_served, run.loaders), "batched")


def _served(loader: LoaderFacts) -> bool:
    return loader.dataset in KINDS and loader.num_items is not None
