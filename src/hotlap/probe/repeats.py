"""Operators that compute the same from the same in each step: at which lines, and for how long."""

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch

from hotlap.probe.modes import is_view, name_of
from hotlap.probe.tally import Spot, sighting
from hotlap.record import Phase, Sighting, SightingKind

# Two steps that follow one another, and one further away.
_FEWEST = 3


class Repeats:
    """Two at least of the steps that it sees follow one another, else what comes in turns would be a constant.

    Left out: what is made of parameters (they change), of nothing, or in place, and what lies outside of forward passes
    and the script's own code.
    """

    def __init__(self) -> None:
        self._nth: Counter[Any] = Counter()
        """How often each operator was called at each line, in this step."""
        self._known: dict[Any, Any] = {}
        """Prints of what was given and made, by call."""
        self._varying: set[Any] = set()
        self._mixed: set[tuple[Phase, Spot]] = set()
        """Lines at which something else is computed as well."""
        self._seconds: dict[Any, list[float]] = {}

    def step_ended(self) -> None:
        """What follows is of the next step."""
        self._nth.clear()

    def saw(
        self, func: Any, line: tuple[Phase, Spot], given: Sequence[torch.Tensor], made: Any, seconds: float
    ) -> None:
        """One that writes into nothing was called."""
        if is_view(func) or not given:
            return
        if any(one.requires_grad for one in given):
            self._mixed.add(line)
            return
        self._nth[func, line] += 1
        call = func, line, self._nth[func, line]
        if call in self._varying:
            return
        prints = _prints([*given, *(made if isinstance(made, tuple | list) else (made,))])
        if prints is None or self._known.setdefault(call, prints) != prints:
            self._varying.add(call)
            self._mixed.add(line)
            return
        self._seconds.setdefault(call, []).append(seconds)

    def sightings(self, num_steps: int, arithmetic_s: Callable[[float], float]) -> tuple[Sighting, ...]:
        """Of so many steps that were seen; `arithmetic_s`: a call's seconds without the call as such."""
        if num_steps < _FEWEST:
            return ()
        found: dict[tuple[Phase, Spot], dict[Any, float]] = {}
        for call, seconds in self._seconds.items():
            func, (phase, spot), _ = call
            cost_s = arithmetic_s(median(seconds))
            if call not in self._varying and len(seconds) >= num_steps and cost_s > 0 and spot.path is not None:
                line = found.setdefault((phase, spot), {})
                line[func] = line.get(func, 0.0) + cost_s
        return tuple(
            sighting(
                SightingKind.REPEATED,
                name_of(max(line, key=lambda func: line[func])),
                spot,
                per_step=1.0,
                cost_s=sum(line.values()),
                detail={"phase": phase.value, "alone": (phase, spot) not in self._mixed},
            )
            for (phase, spot), line in found.items()
        )


def _prints(tensors: Sequence[Any]) -> tuple[Any, ...] | None:
    """None where one of them cannot be read."""
    found: list[Any] = []
    for tensor in tensors:
        parts = [tensor]
        if type(tensor) is torch.Tensor and tensor.layout == torch.sparse_coo:
            parts = [tensor._indices(), tensor._values()]
        for part in parts:
            if not isinstance(part, torch.Tensor) or part.layout != torch.strided or part.device.type != "cpu":
                return None
            whole = part.detach().resolve_conj().resolve_neg().contiguous()
            values: Any = whole.reshape(-1).view(torch.uint8).numpy()
            found.append((part.dtype, tuple(part.shape), zlib.crc32(values)))
    return tuple(found)
