"""late-transform: pictures stay bytes until they are a batch, which becomes numbers at once."""

from collections.abc import Sequence

from hotlap.levers.loaders import MIN_SHARE, DataWrapper, always_the_same, hardly_waits, saves_at_most_s
from hotlap.record import Ceiling, InputPart, LoaderFacts, Phase, Run
from hotlap.units import percent

# Data sets without transforms.
_ROWS = frozenset({"TensorDataset", "Tensor", "ndarray", "memmap", "list", "tuple"})


class LateTransform(DataWrapper):
    """Wraps data sets whose transforms end with `ToTensor` and `Normalize` in `hotlap.data.late`.

    What: the last transforms, which make each number of a picture from one byte and constants, are done for the whole
    batch in the training process; where the script moves it to a GPU, on that. Those before them run as ever, item by
    item, with the same random draws.
    Why: for small pictures the calls of `ToTensor` and `Normalize` cost more than their arithmetic (torchvision's
    `Normalize` makes two tensors of its constants for each item), and a quarter of the bytes is sent by workers and
    travels to the GPU.
    When it hurts: with workers the arithmetic moves into the training process, which may have no time to spare. Items
    that can be kept whole need no transforms at all (cached-dataset). Where the pictures differ in size, are no bytes,
    or are put together by a function of the script's own, everything stays as it is.
    When data change: items are computed each time, by the processes that the script would have; the constants of the
    last transforms are compared before each batch.
    """

    function = "late"

    def leaves(self, run: Run, loader: LoaderFacts) -> str | None:
        """It serves items that transforms make anew each time."""
        if loader.dataset in _ROWS:
            return f"A {loader.dataset} has no transforms."
        if loader.deterministic is True:
            return always_the_same(loader)
        if loader.batch_size is None or not loader.default_collate:
            return f"The script puts the items of {loader.dataset} together itself."
        transforms_s, step_s = run.input_s.get(InputPart.TRANSFORMS), run.mean_step_s()
        cheap = transforms_s is not None and transforms_s < MIN_SHARE * step_s
        if loader.num_workers == 0 and transforms_s is not None and cheap and not _travels(run):
            return f"The transforms of {loader.dataset} take {percent(transforms_s / step_s)} of a step."
        return None

    def gains_nothing(self, run: Run) -> str | None:
        """Fewer bytes that travel are a gain as well."""
        return None if _travels(run) else hardly_waits(run)

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """What transforms take where that is known, else the wait for a batch; and three quarters of the copies."""
        transforms_s = run.input_s.get(InputPart.TRANSFORMS)
        bound_s = saves_at_most_s(run, ceilings)
        waits_s = bound_s if transforms_s is None else min(bound_s, transforms_s)
        copies_s = (run.mean_phase_s(Phase.TRANSFER) or 0.0) if run.device != "cpu" else 0.0
        return min(waits_s + 0.75 * copies_s, run.mean_step_s())


def _travels(run: Run) -> bool:
    """True if copies to the device take a part of the step that is worth saving."""
    return run.device != "cpu" and (run.share(Phase.TRANSFER) or 0.0) >= MIN_SHARE
