"""What was seen at lines of the user's source, step by step -> Sightings."""

import linecache
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hotlap.probe.sites import users_frame
from hotlap.record import Scalar, Sighting, SightingKind
from hotlap.record.moments import median


class Spot(NamedTuple):
    """A line of the user's source; no path where none was on the stack."""

    path: str | None = None
    line: int | None = None

    def fields(self) -> dict[str, Any]:
        """Fields of a Sighting, with the text of the line."""
        if self.path is None or self.line is None:
            return {"path": self.path, "line": self.line}
        text = linecache.getline(self.path, self.line).strip()
        return {"path": str(Path(self.path).resolve()), "line": self.line, "text": text}


def here() -> Spot:
    """The line of the user's that is being executed."""
    frame = users_frame(sys._getframe(1))
    return Spot() if frame is None else Spot(frame.f_code.co_filename, frame.f_lineno)


@dataclass(slots=True)
class _Seen:
    num: int = 0
    costs_s: dict[int, float] = field(default_factory=dict)
    """Step -> seconds, of those steps in which they are known."""
    num_bytes: int | None = None
    detail: dict[str, Scalar] = field(default_factory=dict)

    def cost_s(self, num_steps: int) -> float | None:
        """Of a step. What is done in each step costs what it mostly does: a call that the machine or a first use held
        up would be the largest part of a few (285 us for one of 30 us, in eight steps on an H200)."""
        if not self.costs_s:
            return None
        in_all = len(self.costs_s) == num_steps
        return median(self.costs_s.values()) if in_all else sum(self.costs_s.values()) / num_steps


_Key = tuple[SightingKind, str, Spot]


class EventCounter:
    """Counts by kind, call and line, of whole steps."""

    def __init__(self) -> None:
        self.step = 0
        """Whole steps so far."""
        self._seen: dict[_Key, _Seen] = {}
        self._added: list[tuple[_Key, float | None, int | None, Mapping[str, Scalar]]] = []
        """In the step in progress."""

    def add(
        self,
        kind: SightingKind,
        what: str,
        spot: Spot,
        *,
        cost_s: float | None = None,
        num_bytes: int | None = None,
        detail: Mapping[str, Scalar] | None = None,
    ) -> None:
        """It happened once more."""
        self._added.append(((kind, what, spot), cost_s, num_bytes, detail or {}))

    def end_step(self, *, counts: bool = True) -> None:
        """The step is over; one that does not count is forgotten."""
        for key, cost_s, num_bytes, detail in self._added if counts else ():
            seen = self._seen.setdefault(key, _Seen())
            seen.num += 1
            seen.detail |= detail
            if cost_s is not None:
                seen.costs_s[self.step] = seen.costs_s.get(self.step, 0.0) + cost_s
            if num_bytes is not None:
                seen.num_bytes = (seen.num_bytes or 0) + num_bytes
        self._added.clear()
        self.step += counts

    def sightings(self) -> tuple[Sighting, ...]:
        """Costliest first."""
        found = [
            Sighting(
                kind=kind,
                what=what,
                **spot.fields(),
                per_step=seen.num / self.step,
                cost_s=seen.cost_s(self.step),
                num_bytes=None if seen.num_bytes is None else seen.num_bytes / self.step,
                detail=seen.detail,
            )
            for (kind, what, spot), seen in self._seen.items()
        ]
        return tuple(sorted(found, key=lambda one: (-(one.cost_s or 0.0), -one.per_step)))
