"""What costs time at a line of the user's source, where a trace holds stacks: waits for the device, blocking copies."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from hotlap.record import IdleReason, Sighting, SightingKind
from hotlap.trace import host as hosts
from hotlap.trace import spans
from hotlap.trace.idle import Idle
from hotlap.trace.nesting import Caller, Callers, Line
from hotlap.trace.steps import Steps
from hotlap.trace.table import Floats, Kind, Mask, Trace
from hotlap.trace.timeline import Timeline


@dataclass
class _Place:
    """All of one kind at one line."""

    count: int = 0
    seconds: float = 0.0
    num_bytes: int = 0


@dataclass
class _Places:
    """(what, line) -> all of it."""

    found: dict[tuple[str, Line | None], _Place] = field(default_factory=dict)

    def at(self, what: str, caller: Caller | None) -> _Place:
        return self.found.setdefault((what, caller.line if caller is not None else None), _Place())

    def costliest_first(self) -> list[tuple[str, Line | None, _Place]]:
        ranked = sorted(self.found.items(), key=lambda item: -item[1].seconds)
        return [(what, line, place) for (what, line), place in ranked]


def at_lines(
    trace: Trace, rows: Mask, told: Steps, found: Timeline, threads: frozenset[int], who: Callers, idle: Idle
) -> tuple[Sighting, ...]:
    """Of the steps: waits by what the device idled for them, copies by what they took while nothing computed."""
    inside = (trace.start >= told.start) & (trace.start < told.end)
    waits = np.flatnonzero(hosts.wait_rows(trace, threads) & inside)
    called = trace.launch >= 0
    called[called] = inside[trace.launch[called]]
    copies = np.flatnonzero(rows & trace.which(Kind.COPY) & trace.named(hosts.PAGEABLE) & called)
    count = len(told.edges) - 1
    exposed = spans.within(found.exposed_copies, trace.start[copies], trace.end[copies])
    return (
        *_waits(trace, waits, who, cost_s=idle.seconds(IdleReason.SYNC) / count, steps=count),
        *_copies(trace, copies, exposed, who, steps=count),
    )


def _waits(trace: Trace, rows: np.ndarray, who: Callers, *, cost_s: float, steps: int) -> Iterator[Sighting]:
    """What all of them cost is what the device idled for them, no more; each has the part of it that it waited."""
    places = _Places()
    for row in rows.tolist():
        caller = who.get(row)
        operator = caller.operator if caller is not None else -1
        place = places.at(trace.text(operator if operator >= 0 else row), caller)
        place.count += 1
        place.seconds += float(trace.end[row] - trace.start[row])
    total = sum(place.seconds for place in places.found.values())
    for what, line, place in places.costliest_first():
        share = place.seconds / total if total > 0 else 0.0
        yield _sighting(SightingKind.SYNC, what, line, place, cost_s=cost_s * share, steps=steps)


def _copies(trace: Trace, rows: np.ndarray, exposed: Floats, who: Callers, *, steps: int) -> Iterator[Sighting]:
    """From or to memory that is not pinned: the host waits for each."""
    places = _Places()
    for row, seconds in zip(rows.tolist(), exposed.tolist(), strict=True):
        place = places.at(trace.text(row), who.get(int(trace.launch[row])))
        place.count += 1
        place.seconds += seconds
        place.num_bytes += max(0, int(trace.num_bytes[row]))
    for what, line, place in places.costliest_first():
        yield _sighting(SightingKind.BLOCKING_COPY, what, line, place, cost_s=place.seconds / steps, steps=steps)


def _sighting(
    kind: SightingKind, what: str, line: Line | None, place: _Place, *, cost_s: float, steps: int
) -> Sighting:
    return Sighting(
        kind=kind,
        what=what,
        path=line.path if line is not None else None,
        line=line.line if line is not None else None,
        per_step=place.count / steps,
        cost_s=cost_s,
        num_bytes=place.num_bytes / steps if place.num_bytes else None,
    )
