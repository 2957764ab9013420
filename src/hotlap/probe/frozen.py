"""Models that nothing trains, run anew on samples that every epoch brings again."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from hotlap.probe.digests import storages
from hotlap.probe.event_counter import Spot
from hotlap.record import Sighting, SightingKind


class Frozen:
    """Passes without gradients of models that nothing trains, on batches as a loader gave them: the same of each sample
    in every epoch. Of some steps at the begin of a training."""

    def __init__(self) -> None:
        self._drawn: set[StorageWeakRef] = set()
        self._trained_on: set[StorageWeakRef] = set()
        """What models are given with gradients; `_given`: what frozen ones are."""
        self._given: set[StorageWeakRef] = set()
        self._seen: dict[tuple[int, str, Spot], list[tuple[int, float]]] = defaultdict(list)
        """(address of the module, its name, where it was called) -> (step, seconds) of each pass."""
        self._versions: dict[int, tuple[int, ...]] = {}
        self._changing: set[int] = set()
        self._all_s = 0.0

    def drew(self, batch: Any) -> None:
        """A loader gave it."""
        self._drawn.update(storages(batch))

    def trains(self, module: torch.nn.Module, given: Any, seconds: float) -> None:
        """A pass with gradients."""
        self._all_s += seconds
        if next(module.parameters(), None) is not None:  # a loss is given labels
            self._trained_on.update(storages(given))

    def saw(
        self,
        module: torch.nn.Module,
        given: Any,
        trained: Callable[[], Sequence[torch.Tensor]],
        *,
        step: int,
        spot: Spot,
        seconds: float,
    ) -> None:
        """A pass without gradients; `trained` gives the parameters of all optimizers."""
        self._all_s += seconds
        given_here = set(storages(given))
        if not given_here or not given_here <= self._drawn or not _is_frozen(module, trained()):
            return
        self._given |= given_here
        versions = tuple(one._version for one in module.parameters() if not one.is_inference())
        if versions != self._versions.setdefault(id(module), versions):
            self._changing.add(id(module))
        self._seen[id(module), type(module).__name__, spot].append((step, seconds))

    def sightings(self, num_steps: int) -> Iterator[Sighting]:
        """Of what is made in most of so many steps: a validation comes once in many."""
        shared = not self._given.isdisjoint(self._trained_on)
        for (address, name, spot), seen in self._seen.items() if num_steps else ():
            if address not in self._changing and 2 * len({step for step, _ in seen}) > num_steps:
                seconds = sum(spent for _, spent in seen)
                yield Sighting(
                    kind=SightingKind.FROZEN,
                    what=name,
                    **spot.fields(),
                    per_step=len(seen) / num_steps,
                    cost_s=seconds / num_steps,
                    detail={"part": seconds / self._all_s, "shared": shared},
                )


def _is_frozen(module: torch.nn.Module, trained: Sequence[torch.Tensor]) -> bool:
    """No optimizer has a parameter of it, and it is no copy of what one has: a target network or an averaged teacher
    changes now and then. Nor does it drop at random, or take the mean of its batch."""
    parameters = list(module.parameters())
    known = {id(one) for one in trained}
    if not parameters or not trained or any(id(one) in known for one in parameters):
        return False
    if any(part.training and isinstance(part, _BatchNorm | _DropoutNd) for part in module.modules()):
        return False
    return not Counter(one.shape for one in parameters) <= Counter(one.shape for one in trained)
