"""Whether what items are made from is what it was near its surface: asked before each batch, in some microseconds.

What lies deeper is compared each epoch (`hotlap.data.checks.contents`).
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, final

import numpy as np
import torch

from hotlap.data.checks.checksums import ATOMS, entries_of
from hotlap.data.checks.walk import Place, Walk, alike, children

# Where `Watch` ends: a comparison takes 0.3 us for each object, and is made once a batch.
MAX_OBJECTS = 48
MAX_CHILDREN = 32
MAX_DEPTH = 8


def _alike_or_opened(now: Any, then: Any) -> bool:
    opened = then is None and type(now) not in ATOMS and not isinstance(now, list | tuple | dict | set | np.ndarray)
    return opened or alike(now, then)


@final
class Watch(Walk):
    """What a data set consists of near its surface, and whether that has changed. Cheap: asked before every batch.

    Sees attributes, short lists and dicts, transforms, closures, the globals that `__getitem__` uses, and what torch
    itself counts of changes to tensors. What lies deeper is for `Contents`.
    """

    def __init__(self, root: Any) -> None:
        super().__init__(root)
        self._tensors: list[tuple[str, torch.Tensor, int]] = []
        self._length = self._len()
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

    def changed_by_item(self) -> str | None:
        """What an item just computed changed in the data set itself; what it changed elsewhere is taken as given."""
        for place in self.places.values():
            if place.changed():
                if place.of_data_set:
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
        return None if self._len() == self._length else "the number of items"

    def _len(self) -> int | None:
        if not hasattr(type(self.root), "__len__"):
            return None
        try:
            return len(self.root)
        except (TypeError, NotImplementedError):
            return None

    def _full(self) -> bool:
        return len(self.places) >= MAX_OBJECTS

    def _numbers(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, torch.Tensor) and not value.is_inference():  # those count no versions
            self._tensors.append((f"the tensor {name}", value, value._version))
        return iter(())

    def _container(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if len(value) > MAX_CHILDREN:
            return
        if not isinstance(value, tuple | frozenset):
            self._place("container", value, lambda: Place(name, partial(entries_of, value)))
        yield from children(name, value)
