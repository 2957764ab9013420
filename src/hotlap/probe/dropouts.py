"""What forward passes of the first steps would drop at random, counted and kept; and how long their numbers are.

Where one of several dropouts is lost, no short run's loss shows it. And where nothing is dropped, the same weights,
batch and draws make the same loss and gradients, in whatever order a version lays out its samples and channels.
"""

import contextlib
from collections import Counter
from typing import Any

import torch

from hotlap.probe.digests import tensors
from hotlap.probe.modes import ObserverMode, name_of, put_on, take_off

# Their probability is that of being kept.
_KEEP = {"aten::bernoulli", "aten::bernoulli_"}
_PROBABILITIES = ("p", "dropout_p", "dropout")


class Dropouts(ObserverMode):  # type: ignore[no-untyped-call] # torch has no types for its modes
    """Counts operators that draw, between `begin` and `end`, by the probability to drop an element, and lets them drop
    none: a mask becomes what it is on average."""

    def __init__(self) -> None:
        super().__init__()
        self._is_known = self._counts = False
        self._calls: Counter[float | None] = Counter()
        self._elements: Counter[float | None] = Counter()
        self._shortest: int | None = None

    def begin(self, *, counts: bool = True) -> None:
        """A forward pass begins, or, where nothing is to be counted, a backward pass, which may go forward again."""
        with contextlib.suppress(RuntimeError):  # the script has a mode of its own
            put_on(self)
            self._is_known, self._counts = True, counts

    def end(self) -> None:
        """It is over."""
        take_off(self)

    def found(self) -> tuple[tuple[float | None, int, int], ...] | None:
        """As `Run.dropouts`."""
        rows = ((drops, calls, self._elements[drops]) for drops, calls in self._calls.items() if calls)
        return tuple(rows) if self._is_known else None

    def precision(self) -> str | None:
        """As `Run.precision`."""
        rounded = torch.get_float32_matmul_precision()
        return f"{self._shortest} bytes, {rounded}" if self._is_known and self._shortest else None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = self._kept(func, args, kwargs or {})
        for one in tensors(result) if self._counts else ():
            if one.is_floating_point():
                self._shortest = min(one.element_size(), self._shortest or one.element_size())
        return result

    def _kept(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if torch.Tag.nondeterministic_seeded not in getattr(func, "tags", ()):
            return func(*args, **kwargs)
        given = {one.name: one.default_value for one in func._schema.arguments}
        given |= dict(zip(given, args, strict=False)) | kwargs
        name = next((key for key in _PROBABILITIES if isinstance(given.get(key), float)), None)
        keeps = name_of(func) in _KEEP
        drops = None if name is None else round(1 - given[name] if keeps else given[name], 4)
        if drops == 0 or given.get("train") is False:
            return func(*args, **kwargs)
        self._calls[drops] += self._counts
        self._elements[drops] += self._counts * _num_drawn(given)
        if name is None:
            return func(*args, **kwargs)
        return func(*args, **kwargs).fill_(given[name]) if keeps else func(**given | {name: 0.0})


def _num_drawn(given: dict[str, Any]) -> int:
    if "query" in given and "key" in given:  # of attention one for each pair of places
        query, key = given["query"], given["key"]
        return int(query.numel() // query.shape[-1] * key.shape[-2])
    return sum(value.numel() for value in given.values() if isinstance(value, torch.Tensor))
