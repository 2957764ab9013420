"""Whether what items are made from is what it was near its surface: asked before each batch, in some microseconds.

What lies deeper is compared each epoch (`hotlap.data.checks.contents`).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from copy import copy
from functools import partial
from multiprocessing import current_process
from operator import index, is_
from typing import Any, final

import numpy as np
import torch
from torch.utils.data import Subset

from hotlap.data.checks.checksums import ATOMS, entries_of
from hotlap.data.checks.walk import Place, Walk, alike, children

# Where `Watch` ends: a comparison takes 0.3 us for each object, and is made once a batch.
MAX_OBJECTS = 48
MAX_CHILDREN = 32
MAX_DEPTH = 8


def num_items(dataset: Any) -> int | None:
    """In it; None if it does not say."""
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None


def _differ(now: Any, then: Any, numbers: list[int]) -> bool:
    """One of these entries is another one; of nested ones only which object it is."""
    if len(now) != len(then):
        return True
    try:
        if isinstance(now, np.ndarray):
            return bool(now[numbers].tobytes() != then[numbers].tobytes())
        mine, others = [*map(now.__getitem__, numbers)], [*map(then.__getitem__, numbers)]
    except LookupError:  # its keys are no numbers of items
        return False
    return not (all(map(is_, mine, others)) or all(map(alike, mine, others)))


def _alike_or_opened(now: Any, then: Any) -> bool:
    opened = then is None and type(now) not in ATOMS and not isinstance(now, list | tuple | dict | set | np.ndarray)
    return opened or alike(now, then)


@final
class Watch(Walk):
    """What a data set consists of near its surface, and whether that has changed. Cheap: asked before every batch.

    Sees attributes, short lists and dicts, transforms, closures, the globals that `__getitem__` uses, what torch itself
    counts of changes to tensors, and of lists and arrays with an entry for each item (labels) those of a batch. What
    lies deeper is for `Contents`.
    """

    def __init__(self, root: Any) -> None:
        super().__init__(root)
        self._tensors: list[tuple[str, torch.Tensor, int]] = []
        self._by_item: list[tuple[str, Any, Any]] = []
        """(name, what has an entry for each item, a copy of it): labels, names of files."""
        self._subsets: list[tuple[str, Any, Any]] = []
        """The same of what maps items of a Subset to those of the data set inside."""
        inside = root
        while type(inside) is Subset:
            self._subsets.append(("what a Subset picks", inside.indices, copy(inside.indices)))
            inside = inside.dataset
        # In a worker's copy only its own code could change them, and to copy a list takes up all that lies in it.
        self._num_entries = None if current_process().daemon else num_items(inside)
        self._dtype = torch.get_default_dtype()
        self._length = num_items(root)
        self._go(MAX_DEPTH)

    @property
    def length(self) -> int | None:
        """Items in the data set when this was made; None if it does not say."""
        return self._length

    def changed(self) -> str | None:
        """What is no longer as it was ("attribute level of Curriculum"); None if nothing is known to have changed."""
        for place in self.places.values():
            if place.changed():
                return place.what()
        return self._tensor_changed()

    def entry_changed(self, indices: Sequence[Any]) -> str | None:
        """What has an entry for each item, of which that of one of these items is another one now; None: nothing."""
        if not indices or not (self._by_item or self._subsets):
            return None
        try:
            numbers = [*map(index, indices)]
            for name, now, then in self._subsets:
                if _differ(now, then, numbers):
                    return name
                numbers = [*map(then.__getitem__, numbers)]
        except (LookupError, TypeError):  # no number of one item: the data set itself says what becomes of it
            return None
        return next((name for name, now, then in self._by_item if _differ(now, then, numbers)), None)

    def changed_by_item(self) -> str | None:
        """What an item just computed changed in the data set itself, or counted elsewhere.

        Taken as given: what it keeps for later items in a container or an object, and what libraries note.
        """
        for place in self.places.values():
            if place.changed():
                if place.of_data_set or place.counts():
                    return place.what()
                place.refresh()
        return None

    def opened(self) -> str | None:
        """As `changed`, but what was None and is an object now (a file that was opened late) has not changed."""
        for place in self.places.values():
            now = place.read()
            same_keys = len(now) == len(place.values)
            if not same_keys or not all(map(_alike_or_opened, now, place.values)):
                return place.what()
        return self._tensor_changed()

    def _tensor_changed(self) -> str | None:
        for name, tensor, version in self._tensors:
            if tensor._version != version:
                return name
        if torch.get_default_dtype() != self._dtype:
            return "torch's default dtype, which makes the numbers"
        return None if num_items(self.root) == self._length else "the number of items"

    def _full(self) -> bool:
        return len(self.places) >= MAX_OBJECTS

    def _numbers(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, torch.Tensor) and not value.is_inference():  # those count no versions
            self._tensors.append((f"the tensor {name}", value, value._version))
        elif isinstance(value, np.ndarray) and value.ndim == 1 and not value.dtype.hasobject:
            self._note_entries(f"the array {name}", value)
        return iter(())

    def _note_entries(self, name: str, value: Any) -> None:
        if len(value) == self._num_entries:
            self._by_item.append((name, value, copy(value)))

    def _container(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if len(value) > MAX_CHILDREN:
            if type(value) in (list, dict, deque):
                self._note_entries(name, value)
            return
        if not isinstance(value, tuple | frozenset):
            self._place("container", value, lambda: Place(name, partial(entries_of, value)))
        yield from children(name, value)
