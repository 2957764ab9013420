"""What the input phase is made of: starting, drawing indices, making items, transforms, collating, waiting."""

import time
from collections.abc import Generator, Mapping
from typing import Any, ClassVar

import torch
from torch.utils.data import dataloader

from hotlap.data.wrapper import unwrapped
from hotlap.probe import clock as phases
from hotlap.probe.guard import Function
from hotlap.probe.profilers.profiler import Profiler
from hotlap.record import InputPart

# Attributes by which data sets call their transforms (torchvision's convention), and by which they wrap one another.
_TRANSFORMS = ("transform", "target_transform", "transforms")
_INNER = ("dataset", "datasets")
_MAX_DEPTH = 5

# Long steps are few: others want them more than an input below half of what any rule speaks of.
_LONG_STEP_S = 0.5
_MIN_SHARE = 0.05


class Input(Profiler):
    """WINDOW for loaders without workers. What starting an iterator takes, which is rare, the recorded steps tell; with
    workers the rest of the phase is waiting for them, so nothing more needs to be timed.
    """

    num_steps: ClassVar[int] = 8
    patience_s: ClassVar[float] = 10.0

    def __init__(self) -> None:
        super().__init__()
        self._spent: dict[InputPart, float] = {}
        self._window_s = 0.0
        self._whole: tuple[dict[InputPart, float], float] = ({}, 0.0)
        """Both of the whole steps so far, without those with a validation."""
        self._seen: set[int] = set()
        """Iterators and data sets, which the patch keeps alive."""

    def steps(self) -> Generator[None]:
        """Time the parts of each single-process iterator, as it is met, where batches come from loaders at all; where
        steps are long and loading takes next to nothing, there are none."""
        phase_s = self.session.ledger.phase_s()
        least_s = _MIN_SHARE * sum(phase_s) if sum(phase_s) > _LONG_STEP_S else 0.0
        if phases.INPUT not in self.session.clock.entered or phase_s[phases.INPUT] < least_s:
            return
        iterator = dataloader._SingleProcessDataLoaderIter
        for kind in (iterator, *iterator.__subclasses__()):  # those of hotlap.data as well
            if "_next_data" in vars(kind):
                self.hook(self.patch, kind, "_next_data", self._drawing)
        for _ in self.paced():
            yield
            if self.validated() is None:
                self._whole = dict(self._spent), self._window_s
            else:
                self._spent, self._window_s = dict(self._whole[0]), self._whole[1]

    def _drawing(self, next_data: Function, iterator: Any) -> Any:
        if id(iterator) not in self._seen:
            self._seen.add(id(iterator))
            self._prepare(iterator)
        begun = time.perf_counter()
        try:
            return next_data(iterator)
        finally:
            self._window_s += time.perf_counter() - begun

    def _prepare(self, iterator: Any) -> None:
        fetcher = iterator._dataset_fetcher
        self._time(iterator, "_next_index", InputPart.INDICES)
        self._time(fetcher, "fetch", InputPart.ITEMS)
        self._time(fetcher, "collate_fn", InputPart.COLLATE)
        for owner in _chain(fetcher.dataset):
            name = next((name for name in _TRANSFORMS if callable(getattr(owner, name, None))), None)
            if name is not None and id(owner) not in self._seen:  # another iterator's as well
                self._seen.add(id(owner))
                self._time(owner, name, InputPart.TRANSFORMS)

    def _time(self, owner: Any, name: str, part: InputPart) -> None:
        def timed(function: Function, *args: Any, **kwargs: Any) -> Any:
            begun = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._spent[part] = self._spent.get(part, 0.0) + time.perf_counter() - begun

        self.hook(self.patch, owner, name, timed)

    def fields(self) -> Mapping[str, Any]:
        """`Run.input_s`. What was seen in the window is scaled to the recorded steps, which it did not burden."""
        session = self.session
        if not session.num_recorded or phases.INPUT not in session.clock.entered:
            return {}
        mean_s = session.ledger.phase_s()[phases.INPUT]
        start_s = min(mean_s, session.ledger.start_s())
        parts: dict[InputPart, float | None] = {InputPart.START: start_s}
        rest_s = mean_s - start_s
        spent, window_s = self._whole
        if spent and window_s > 0:
            within_s = sum(spent.get(part, 0.0) for part in (InputPart.COLLATE, InputPart.TRANSFORMS))
            for part, seconds in spent.items():
                own_s = seconds - within_s if part is InputPart.ITEMS else seconds
                parts[part] = rest_s * min(1.0, max(0.0, own_s) / window_s)
        elif any(one.trained_on and one.num_workers for one in session.facts.loader_facts(sample=False)):
            parts[InputPart.WORKERS] = rest_s
        return {"input_s": parts}


def _chain(dataset: Any) -> list[Any]:
    """A data set and those that it wraps (Subset, ConcatDataset, the user's own)."""
    # What stands in for one hands on what is set, and has no attribute of its own that could be put back.
    found, level = [], [unwrapped(dataset)]
    for _ in range(_MAX_DEPTH):
        found += level
        parts = (part for owner in level for name in _INNER for part in _listed(getattr(owner, name, None)))
        level = [*map(unwrapped, parts)]
    return found


def _listed(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [part for part in value if isinstance(part, torch.utils.data.Dataset)]
    return [value] if isinstance(value, torch.utils.data.Dataset) else []
