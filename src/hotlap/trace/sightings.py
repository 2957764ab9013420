"""What costs time at a line of the user's source, where a trace holds stacks: waits for the device, blocking copies."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hotlap.record import IdleReason, Sighting, SightingKind
from hotlap.trace import host as hosts
from hotlap.trace import spans
from hotlap.trace.idle import Idle
from hotlap.trace.nesting import Line
from hotlap.trace.seen import Seen
from hotlap.trace.table import Floats, Ints, Kind


@dataclass
class _Place:
    """All of one kind at one line."""

    count: int = 0
    seconds: float = 0.0
    num_bytes: int = 0


def at_lines(seen: Seen, idle: Idle) -> tuple[Sighting, ...]:
    """Of the steps: waits by what the device idled for them, copies by what they took while nothing computed."""
    trace, told, who = seen.trace, seen.steps, seen.who
    inside = (trace.start >= told.start) & (trace.start < told.end)
    waits = np.flatnonzero(hosts.wait_rows(trace, seen.threads) & inside)
    called = trace.launch >= 0
    called[called] = inside[trace.launch[called]]
    # From or to memory that is not pinned: the host waits for each.
    copies = np.flatnonzero(seen.rows & trace.which(Kind.COPY) & trace.named(hosts.PAGEABLE) & called)
    operators, waited_s = who.operator[waits], trace.end[waits] - trace.start[waits]
    # What all waits cost is what the device idled for them, no more; each has the part of it that it waited.
    waits_s = waited_s * (idle.seconds(IdleReason.SYNC) / (waited_s.sum() or 1.0))
    exposed_s = spans.within(seen.timeline.exposed_copies, trace.start[copies], trace.end[copies])
    return (
        *_by_place(SightingKind.SYNC, seen, np.where(operators >= 0, operators, waits), waits, waits_s),
        *_by_place(SightingKind.BLOCKING_COPY, seen, copies, trace.launch[copies], exposed_s),
    )


def _by_place(kind: SightingKind, seen: Seen, events: Ints, calls: Ints, seconds: Floats) -> Iterator[Sighting]:
    """Events that are called alike at one line are one sighting; costliest first."""
    found: dict[tuple[str, Line | None], _Place] = defaultdict(_Place)
    for event, call, cost_s in zip(events.tolist(), calls.tolist(), seconds.tolist(), strict=True):
        place = found[seen.trace.text(event), seen.who.line(call)]
        place.count += 1
        place.seconds += cost_s
        place.num_bytes += max(0, int(seen.trace.num_bytes[event]))
    for (what, line), place in sorted(found.items(), key=lambda item: -item[1].seconds):
        yield Sighting(
            kind=kind,
            what=what,
            path=line.path if line is not None else None,
            line=line.line if line is not None else None,
            per_step=place.count / seen.count,
            cost_s=place.seconds / seen.count,
            num_bytes=place.num_bytes / seen.count if place.num_bytes else None,
        )
