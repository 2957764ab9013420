"""pin-and-overlap: batches lie in pinned memory and travel to the GPU while the one before trains."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from hotlap.levers.lever import Lever, Numerics, Patch, Scope
from hotlap.levers.loaders import (
    NO_LINE,
    NO_LOADER,
    has_items,
    refused_by_all,
    replace_datasets,
    saves_at_most_s,
    wrapping_edits,
)
from hotlap.record import Ceiling, LoaderFacts, Machine, Phase, Run, ShapeFacts
from hotlap.source import Edit
from hotlap.units import percent, size

# As for waiting: gains below this drown in the noise between processes.
MIN_SHARE = 0.02

# Some sizes are pinned once each; as for compiled code.
_MOST_SHAPES = 8

# Below this a copy takes as long as starting it (hotlap.data.travel).
LEAST_BYTES = 64 << 10


@final
@dataclass(frozen=True, slots=True)
class PinAndOverlap(Lever):
    """Wraps data sets in `hotlap.data.overlapped`.

    What: batches are put into pinned memory, their copy to the GPU begins on a stream of its own as soon as they are
    there, and `.to(device)` in the script is given that copy. Same values.
    Why: from ordinary memory a copy goes through a buffer of the driver's and holds the host up until it is done; from
    pinned memory it runs beside the kernels (CUDA C++ Best Practices Guide, 10.1; PyTorch's tutorial on pin_memory and
    non_blocking).
    When it hurts: pinned memory is taken from everybody, in blocks of powers of two; small batches travel as fast
    without (left alone). Memory that is pinned anew for each batch costs more than it saves (pytorch/pytorch#124456),
    so it is refused where sizes keep changing.
    """

    name: ClassVar[str] = "pin-and-overlap"
    scope: ClassVar[Scope] = Scope.LOADER
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Is there a GPU, and do copies to it cost anything?"""
        if not run.loaders:
            return NO_LOADER
        if run.device == "cpu":
            return "The model runs on the CPU: batches do not travel."
        if run.shapes is not None and _keep_coming(run.shapes):
            return (
                f"The model was given {run.shapes.num_shapes} different shapes: memory would be pinned again and again."
            )
        refused = refused_by_all(run, _refuses)
        if refused is not None:
            return refused
        share = run.share(Phase.TRANSFER)
        if share is not None and share < MIN_SHARE:
            return f"Copies to the device take {percent(share)} of a step, so there is nothing to gain."
        return None if self.edits(run) else NO_LINE

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """All that a step spends on copies; what it waits for its batch where they were not told apart."""
        copies_s = run.mean_phase_s(Phase.TRANSFER)
        return saves_at_most_s(run, ceilings) if copies_s is None else copies_s

    def install(self, patch: Patch) -> None:
        """Replaces the data set that a DataLoader is made with; those made before are left alone."""
        from hotlap.data import overlapped

        replace_datasets(patch, lambda dataset: overlapped(dataset) if has_items(dataset) else dataset)

    def edits(self, run: Run) -> Sequence[Edit]:
        """`overlapped(...)` around the data set of each loader that is served."""
        return wrapping_edits(run, [loader for loader in run.loaders if _refuses(loader) is None], "overlapped")


def _keep_coming(shapes: ShapeFacts) -> bool:
    """Sizes go on changing: pinned blocks are kept by size (pytorch/pytorch#124456)."""
    return shapes.num_shapes > _MOST_SHAPES and 2 * shapes.num_new_late > shapes.num_shapes


def _refuses(loader: LoaderFacts) -> str | None:
    if loader.num_items is None:
        return f"{loader.dataset} is an iterable data set; only data sets with items are wrapped."
    num_bytes = (loader.item_bytes or LEAST_BYTES) * (loader.batch_size or 1)
    if num_bytes < LEAST_BYTES:
        return f"A batch of {loader.dataset} has {size(num_bytes)}: it travels as fast without."
    return None
