"""What costs time at a line of the user's source, where a trace holds stacks: waits for the device, blocking copies."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from hotlap.record import IdleReason, Sighting, SightingKind
from hotlap.trace import host as hosts
from hotlap.trace import spans
from hotlap.trace.idle import Idle
from hotlap.trace.nesting import Line
from hotlap.trace.seen import Seen
from hotlap.trace.table import Floats, Ints, Kind


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
    found: dict[tuple[str, Line | None], list[int]] = defaultdict(list)
    for at, (event, call) in enumerate(zip(events.tolist(), calls.tolist(), strict=True)):
        found[seen.trace.text(event), seen.who.line(call)].append(at)
    for (what, line), ours in sorted(found.items(), key=lambda item: -seconds[item[1]].sum()):
        num_bytes = np.maximum(seen.trace.num_bytes[events[ours]], 0).sum()
        yield Sighting(
            kind=kind,
            what=what,
            path=line.path if line is not None else None,
            line=line.line if line is not None else None,
            per_step=len(ours) / seen.count,
            cost_s=float(seconds[ours].sum()) / seen.count,
            num_bytes=float(num_bytes) / seen.count if num_bytes else None,
        )
