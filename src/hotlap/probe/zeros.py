"""Products of matrices, one by one -> Sightings of those whose data are nearly all 0."""

from collections.abc import Iterable, Mapping

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from hotlap.probe.digests import storages
from hotlap.probe.event_counter import EventCounter, Spot
from hotlap.record import Phase, Scalar, SightingKind

_PRODUCTS = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::mv", "aten::addmv"})

# Ours: a product with a smaller matrix takes next to nothing.
_LEAST_ELEMENTS = 1 << 16

# For each element that is not 0 a sparse product (CSR) takes as long as a dense one for 4 to 11: 3000 x 3000 by 64 and
# 64 x 20,000 by 128 of which 0.1 to 3% are filled, forward and backward, one thread, torch 2.13.
_PRICE = 10.0

# Half of the time at least is saved.
_MOST_FILLED = 0.5 / _PRICE


class Zeros:
    """What a sparse matrix would save. Of results of the model (an activation, a dropout) it says nothing."""

    def __init__(self, event_counter: EventCounter) -> None:
        self._event_counter = event_counter
        self._step: dict[StorageWeakRef, tuple[Spot | None, float, str]] = {}
        """Of matrices in the step in progress: the line that multiplies with it first, the part that is not 0, and the
        shape."""

    def saw(self, name: str, given: Iterable[torch.Tensor], phase: Phase, spot: Spot | None, seconds: float) -> None:
        """An operator. A backward pass multiplies with what the forward pass had (turned), in no line of its own."""
        for matrix in given if name in _PRODUCTS else ():
            if matrix.numel() < _LEAST_ELEMENTS or matrix.layout is not torch.strided:
                continue
            (storage,) = storages([matrix])
            if storage not in self._step and spot is not None and not matrix.requires_grad:
                filled = int(torch.count_nonzero(matrix)) / matrix.numel()
                self._step[storage] = spot, filled, " x ".join(map(str, matrix.shape))
            place, filled, shape = self._step.get(storage, (None, 0.0, ""))
            if place is not None and 0 < filled <= _MOST_FILLED:
                detail: Mapping[str, Scalar] = {"phase": phase, "filled": filled, "shape": shape}
                cost_s = seconds * (1 - _PRICE * filled)
                self._event_counter.add(
                    SightingKind.ZEROS, f"{name} ({phase.value})", place, cost_s=cost_s, detail=detail
                )

    def end_step(self) -> None:
        """What comes next is of another step."""
        self._step.clear()
