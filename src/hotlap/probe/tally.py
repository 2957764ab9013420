"""What was seen at lines of the user's source, step by step -> Sightings."""

import linecache
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

from hotlap.probe.sites import users_frame
from hotlap.record import Scalar, Sighting, SightingKind


class Spot(NamedTuple):
    """A line of the user's source; no path where none was on the stack."""

    path: str | None = None
    line: int | None = None


def here() -> Spot:
    """The line of the user's that is being executed."""
    frame = users_frame(sys._getframe(1))
    return Spot() if frame is None else Spot(frame.f_code.co_filename, frame.f_lineno)


@dataclass(slots=True)
class _Seen:
    steps: list[int] = field(default_factory=list)
    costs_s: list[float | None] = field(default_factory=list)
    num_bytes: list[int | None] = field(default_factory=list)
    detail: Mapping[str, Scalar] = field(default_factory=dict)


class Tally:
    """Counts by kind, call and line. What happens after the last whole step is left out in the end."""

    def __init__(self) -> None:
        self.step = 0
        """Whole steps so far."""
        self._seen: dict[tuple[SightingKind, str, Spot], _Seen] = {}

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
        seen = self._seen.setdefault((kind, what, spot), _Seen())
        seen.steps.append(self.step)
        seen.costs_s.append(cost_s)
        seen.num_bytes.append(num_bytes)
        seen.detail = {**seen.detail, **(detail or {})}

    def forget_step(self) -> None:
        """What was seen since the last whole step does not count."""
        for seen in self._seen.values():
            kept = seen.steps.index(self.step) if self.step in seen.steps else len(seen.steps)
            for column in (seen.steps, seen.costs_s, seen.num_bytes):
                del column[kept:]

    def sightings(self) -> tuple[Sighting, ...]:
        """Costliest first."""
        if not self.step:
            return ()
        found = [_sighting(*key, seen, num_steps=self.step) for key, seen in self._seen.items()]
        return tuple(sorted((s for s in found if s.per_step), key=lambda s: (-(s.cost_s or 0.0), -s.per_step)))


def sighting(
    kind: SightingKind,
    what: str,
    spot: Spot,
    *,
    per_step: float,
    cost_s: float | None = None,
    num_bytes: float | None = None,
    detail: Mapping[str, Scalar],
) -> Sighting:
    """With the text of the line."""
    return Sighting(
        kind=kind,
        what=what,
        path=None if spot.path is None else str(Path(spot.path).resolve()),
        line=spot.line,
        text=linecache.getline(spot.path, spot.line).strip() if spot.path and spot.line else "",
        per_step=per_step,
        cost_s=cost_s,
        num_bytes=num_bytes,
        detail=detail,
    )


def _cost_s(costs: list[tuple[int, float]], num_steps: int) -> float:
    """Of a step, from (step, seconds). What is done in each step costs what it mostly does: a call that the machine or
    a first use held up would be the largest part of a few (285 us for one of 30 us, in eight steps on an H200)."""
    of_steps: dict[int, float] = {}
    for step, cost_s in costs:
        of_steps[step] = of_steps.get(step, 0.0) + cost_s
    return median(of_steps.values()) if len(of_steps) == num_steps else sum(of_steps.values()) / num_steps


def _sighting(kind: SightingKind, what: str, spot: Spot, seen: _Seen, *, num_steps: int) -> Sighting:
    count = sum(step < num_steps for step in seen.steps)
    costs = [
        (step, cost_s) for step, cost_s in zip(seen.steps, seen.costs_s[:count], strict=False) if cost_s is not None
    ]
    num_bytes = [number for number in seen.num_bytes[:count] if number is not None]
    return sighting(
        kind,
        what,
        spot,
        per_step=count / num_steps,
        cost_s=_cost_s(costs, num_steps) if costs else None,
        num_bytes=sum(num_bytes) / num_steps if num_bytes else None,
        detail=seen.detail,
    )
