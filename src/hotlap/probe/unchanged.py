"""Operators of a step, one by one -> Sightings of those that do the same in each step."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch.multiprocessing.reductions import StorageWeakRef

from hotlap.probe.digests import digest_of, leaves, storages
from hotlap.probe.event_counter import EventCounter, Spot
from hotlap.record import Phase, Scalar, Sighting, SightingKind

# What fills or copies memory gives what may be written to next, and must be made each time, unless all that comes of it
# is the same.
_FILLS = ("clone", "_like", "::new_", "::empty", "::zeros", "::ones", "::full")

_Key = tuple[Phase, Spot, Any, int]
"""(phase, line, operator, which of these in the step)."""


@dataclass(slots=True)
class _Same:
    name: str
    digest: bytes | None
    """None: it differed."""
    seconds: list[float] = field(default_factory=list)
    counts: bool = True
    """It could be made once, in all steps so far."""


class Unchanged:
    """Which operators are given the same, and make the same of it, in each step."""

    def __init__(self) -> None:
        self._seen: dict[_Key, _Same] = {}
        self._step: dict[_Key, tuple[str, bytes, float, frozenset[StorageWeakRef]]] = {}
        """The step in progress: (operator, digest, seconds, what is filled or written to)."""
        self._numbers: Counter[tuple[Phase, Spot, Any]] = Counter()
        self._changing: set[StorageWeakRef] = set()
        """Storages last written by what changes: that `isfinite` is true of each batch tells of no sameness."""
        self._born: set[StorageWeakRef] = set()
        self._read: set[StorageWeakRef] = set()
        """By what is the same."""
        self._passed_on: set[StorageWeakRef] = set()
        """To what changes, or is not looked at: it may write to them."""

    def saw(self, name: str, func: Any, phase: Phase, spot: Spot, *, graph: bool, told: Any, seconds: float) -> None:
        """An operator; `told`: what it was given, and made. `seconds`: the call included, which goes with it. (To hash
        3 MB takes 0.3 ms; what differed once is not hashed again.)"""
        *given, made = told
        sources, targets = frozenset(storages(given)), frozenset(storages(made))
        changes = graph or not self._changing.isdisjoint(sources)
        self._numbers[phase, spot, func] += 1
        key = phase, spot, func, self._numbers[phase, spot, func]
        seen = self._seen.get(key)
        if not changes and (seen is None or seen.digest is not None):
            digest = b"".join(map(digest_of, leaves(told)))
            changes = seen is not None and digest != seen.digest
            fills = _writes(func) or any(part in name for part in _FILLS)
            self._step[key] = name, b"" if changes else digest, seconds, targets if fills else frozenset()
        elif seen is not None:
            changes, seen.digest = True, None
        (self._changing.update if changes else self._changing.difference_update)(targets)
        (self._passed_on if changes else self._read).update(sources if changes else sources - targets)
        self._born |= targets - sources

    def passed(self, given: Any) -> None:
        """An operator that is not looked at was given this."""
        self._passed_on.update(storages(given))

    def end_step(self, *, counts: bool) -> None:
        """The operators that come next are those of another step; one that does not count is forgotten."""
        once = (self._born & self._read) - self._passed_on
        for key, (name, digest, seconds, filled) in self._step.items() if counts else ():
            seen = self._seen.setdefault(key, _Same(name, digest))
            seen.digest = digest if digest == seen.digest else None
            seen.seconds.append(seconds)
            seen.counts &= filled <= once
        for kept in (self._step, self._numbers, self._changing, self._born, self._read, self._passed_on):
            kept.clear()

    def sightings(self, num_steps: int) -> tuple[Sighting, ...]:
        """By line and operator, costliest first."""
        found = EventCounter()
        for step in range(num_steps if num_steps > 1 else 0):
            for (phase, spot, _, _), seen in self._seen.items():
                same = seen.counts and seen.digest is not None and len(seen.seconds) == num_steps
                if same:
                    detail: Mapping[str, Scalar] = {"phase": phase, "steps": num_steps}
                    found.add(SightingKind.UNCHANGED, seen.name, spot, cost_s=seen.seconds[step], detail=detail)
            found.end_step()
        return found.sightings()


def _writes(func: Any) -> bool:
    """Into what it is given; higher-order operators (cond, flex_attention) have no schema."""
    schema = getattr(func, "_schema", None)
    return schema is None or bool(schema.is_mutable)
