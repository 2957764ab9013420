"""What forward passes of a step drop at random: where one of several dropouts is lost, no short run's loss shows it."""

import contextlib
from collections import Counter
from typing import Any

import torch

from hotlap.probe.modes import ObserverMode, name_of, put_on, take_off

# Their probability is that of being kept.
_KEEP = {"aten::bernoulli", "aten::bernoulli_"}
_PROBABILITIES = ("p", "dropout_p", "dropout")


class Dropouts(ObserverMode):
    """Counts operators that draw, between `begin` and `end`, by the probability to drop an element."""

    def __init__(self) -> None:
        super().__init__()
        self._is_known = False
        self._calls: Counter[float | None] = Counter()
        self._elements: Counter[float | None] = Counter()

    def begin(self) -> None:
        """A forward pass begins."""
        with contextlib.suppress(RuntimeError):  # the script has a mode of its own
            put_on(self)
            self._is_known = True

    def end(self) -> None:
        """It is over."""
        take_off(self)

    def found(self) -> tuple[tuple[float | None, int, int], ...] | None:
        """As `Run.dropouts`."""
        rows = ((drops, calls, self._elements[drops]) for drops, calls in self._calls.items())
        return tuple(rows) if self._is_known and not self.failures else None

    def saw(self, func: Any, args: Any, kwargs: Any, result: Any, seconds: float) -> None:
        """Counts it."""
        if torch.Tag.nondeterministic_seeded not in getattr(func, "tags", ()):
            return
        given = {one.name: one.default_value for one in func._schema.arguments}
        given |= dict(zip(given, args, strict=False)) | kwargs
        probability = next((given[key] for key in _PROBABILITIES if isinstance(given.get(key), float)), None)
        if probability is not None:
            probability = round(1 - probability if name_of(func) in _KEEP else probability, 4)
        if probability != 0.0 and given.get("train") is not False:
            self._calls[probability] += 1
            self._elements[probability] += _num_drawn(given)


def _num_drawn(given: dict[str, Any]) -> int:
    if "query" in given and "key" in given:  # of attention one for each pair of places
        query, key = given["query"], given["key"]
        return int(query.numel() // query.shape[-1] * key.shape[-2])
    return sum(value.numel() for value in given.values() if isinstance(value, torch.Tensor))
