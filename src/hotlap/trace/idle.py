"""Why the device idled: what the host did while it had launched nothing more. Reads; the trace's own words decide."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotlap.record import IdleReason
from hotlap.trace import spans
from hotlap.trace.host import wait_rows
from hotlap.trace.seen import Seen
from hotlap.trace.table import Floats, Ints, Kind, Trace

# A wait that ended so long before the device came to rest has nothing to do with it.
_AFTER_WAIT_S = 50e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """(G,) stretches in which nothing ran on the device."""

    start: Floats
    end: Floats
    why: Mapping[IdleReason, Floats]
    """(G,) seconds each; all reasons together make the stretch."""
    next: Ints
    """(G,) row of the event that ends it; -1 where nothing does."""

    def seconds(self, why: IdleReason) -> float:
        """Of all stretches."""
        return float(self.why[why].sum())


def explain(seen: Seen) -> Idle:
    """Between the first edge and the last. Each stretch ends with something that was launched: until then the host was
    late, from then on the device.

    Of what the host did late, as much as a launch takes counts as launching; beyond that it did something else. And the
    part that waiting for the device had cost it before counts as waiting: without that it would have been ahead by so
    much.
    """
    host = seen.host
    gaps = spans.without(np.array([[seen.edges[0], seen.edges[-1]]]), seen.timeline.busy)
    start, end = gaps[:, 0], gaps[:, 1]
    ends_with = _next(seen, end)
    late = _late_until(seen.trace, ends_with, start, end)
    parts = {
        IdleReason.INPUT: spans.within(host.input, start, late),
        IdleReason.SYNC: spans.within(host.waits, start, late),
        IdleReason.ALLOCATION: spans.within(host.allocating, start, late),
        IdleReason.CALLS: spans.within(host.optimizer, start, late),
        IdleReason.OPERATORS: spans.within(host.calling(), start, late),
    }
    parts[IdleReason.PYTHON] = np.maximum(0.0, (late - start) - sum(parts.values()))
    launching = np.minimum(parts[IdleReason.OPERATORS] + parts[IdleReason.PYTHON], launch_s(seen))
    parts[IdleReason.CALLS] += _moved(parts, (IdleReason.OPERATORS, IdleReason.PYTHON), launching)
    owed = _waited(seen, start, late)
    parts[IdleReason.SYNC] += _moved(
        parts, (IdleReason.ALLOCATION, IdleReason.CALLS, IdleReason.OPERATORS, IdleReason.PYTHON), owed
    )
    return Idle(start=start, end=end, next=ends_with, why={**parts, IdleReason.LAUNCH: end - late})


def launch_s(seen: Seen) -> float:
    """What one launch takes the host: the median time of an operator that launches a kernel, divided by its launches;
    of the call alone, where no operator is around it. 0 where no launch was recorded."""
    trace = seen.trace
    calls = np.unique(trace.launch[seen.rows & trace.which(Kind.KERNEL) & (trace.launch >= 0)])
    around = seen.who.operator[calls]
    launching, which, count = np.unique(np.where(around < 0, calls, around), return_inverse=True, return_counts=True)
    each = (trace.end[launching] - trace.start[launching]) / count
    return float(np.median(each[which])) if len(calls) else 0.0


def _moved(parts: dict[IdleReason, Floats], sources: tuple[IdleReason, ...], wanted: Floats) -> Floats:
    """Takes up to so many seconds of each stretch from these reasons, in equal shares; how many it took."""
    possible = sum((parts[one] for one in sources), np.zeros_like(wanted))
    moved: Floats = np.minimum(wanted, possible)
    kept = np.divide(possible - moved, possible, out=np.ones_like(possible), where=possible > 0)
    for one in sources:
        parts[one] = parts[one] * kept
    return moved


def _next(seen: Seen, end: Floats) -> Ints:
    """The event on the device that begins with each end."""
    events = np.append(np.flatnonzero(seen.rows), -1)
    return events[np.searchsorted(seen.trace.start[events[:-1]], end - 1e-12)]


def _late_until(trace: Trace, ends_with: Ints, start: Floats, end: Floats) -> Floats:
    """When the call began that launched what ends the stretch; its end, where nothing does."""
    calls = np.where(ends_with >= 0, trace.launch[np.maximum(ends_with, 0)], -1)
    return np.clip(np.where(calls >= 0, trace.start[np.maximum(calls, 0)], end), start, end)


def _waited(seen: Seen, start: Floats, late: Floats) -> Floats:
    """How long the last wait before the host went on had kept it from going ahead, beside a busy device."""
    trace, waits = seen.trace, np.flatnonzero(wait_rows(seen.trace, seen.threads))
    if not len(waits):
        return np.zeros(len(start))
    waits = waits[np.argsort(trace.end[waits])]
    at = np.searchsorted(trace.end[waits], late, side="right") - 1
    one = waits[np.maximum(at, 0)]
    kept_s = spans.within(seen.timeline.busy, trace.start[one], trace.end[one])
    concerns = (at >= 0) & (trace.end[one] >= start - _AFTER_WAIT_S)
    return np.where(concerns, kept_s, 0.0)
