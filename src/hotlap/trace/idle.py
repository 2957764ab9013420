"""Why the device idled: what the host did while it had launched nothing more. Reads; the trace's own words decide."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from hotlap.trace import spans
from hotlap.trace.host import Host, wait_rows
from hotlap.trace.table import Floats, Ints, Mask, Trace
from hotlap.trace.timeline import Timeline

# A wait that ended so long before the device came to rest has nothing to do with it.
_AFTER_WAIT_S = 50e-6


class Why(StrEnum):
    """What the device waited for."""

    INPUT = "the loader"
    SYNC = "the host, which had waited for the device and only then went on"
    ALLOCATION = "memory to be allocated or freed"
    CALLS = "the host to call operators and launch kernels"
    PYTHON = "the script's own Python"
    LAUNCH = "work that was launched already (latency, another stream)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """(G,) stretches in which nothing ran on the device."""

    start: Floats
    end: Floats
    why: Mapping[Why, Floats]
    """(G,) seconds each; all reasons together make the stretch."""
    next: Ints
    """(G,) row of the event that ends it; -1 where nothing does."""

    def seconds(self, why: Why) -> float:
        """Of all stretches."""
        return float(self.why[why].sum())


def explain(trace: Trace, rows: Mask, found: Timeline, edges: Floats, host: Host, threads: frozenset[int]) -> Idle:
    """Between the first edge and the last. Each stretch ends with something that was launched: until then the host was
    late, from then on the device.

    Of what the host did late, the part that waiting for the device had cost it before counts as waiting: without that
    it would have been ahead by so much.
    """
    gaps = spans.without(np.array([[edges[0], edges[-1]]]), found.busy)
    start, end = gaps[:, 0], gaps[:, 1]
    ends_with = _next(trace, rows, end)
    late = _late_until(trace, ends_with, start, end)
    parts = {
        Why.INPUT: spans.within(host.input, start, late),
        Why.ALLOCATION: spans.within(host.allocating, start, late),
        Why.CALLS: spans.within(host.calling(), start, late) + spans.within(host.optimizer, start, late),
        Why.SYNC: spans.within(host.waits, start, late),
    }
    parts[Why.PYTHON] = np.maximum(0.0, (late - start) - sum(parts.values()))
    owed = _waited(trace, found, threads, start, late)
    others = (Why.ALLOCATION, Why.CALLS, Why.PYTHON)
    possible = sum(parts[one] for one in others)
    moved = np.minimum(owed, possible)
    kept = np.divide(possible - moved, possible, out=np.ones_like(possible), where=possible > 0)
    return Idle(
        start=start,
        end=end,
        next=ends_with,
        why={
            Why.INPUT: parts[Why.INPUT],
            Why.SYNC: parts[Why.SYNC] + moved,
            **{one: parts[one] * kept for one in others},
            Why.LAUNCH: end - late,
        },
    )


def _next(trace: Trace, rows: Mask, end: Floats) -> Ints:
    """The event on the device that begins with each end."""
    events = np.append(np.flatnonzero(rows), -1)
    return events[np.searchsorted(trace.start[events[:-1]], end - 1e-12)]


def _late_until(trace: Trace, ends_with: Ints, start: Floats, end: Floats) -> Floats:
    """When the call began that launched what ends the stretch; its end, where nothing does."""
    calls = np.where(ends_with >= 0, trace.launch[np.maximum(ends_with, 0)], -1)
    return np.clip(np.where(calls >= 0, trace.start[np.maximum(calls, 0)], end), start, end)


def _waited(trace: Trace, found: Timeline, threads: frozenset[int], start: Floats, late: Floats) -> Floats:
    """How long the last wait before the host went on had kept it from going ahead, beside a busy device."""
    waits = np.flatnonzero(wait_rows(trace, threads))
    if not len(waits):
        return np.zeros(len(start))
    waits = waits[np.argsort(trace.end[waits])]
    at = np.searchsorted(trace.end[waits], late, side="right") - 1
    one = waits[np.maximum(at, 0)]
    kept_s = spans.within(found.busy, trace.start[one], trace.end[one])
    concerns = (at >= 0) & (trace.end[one] >= start - _AFTER_WAIT_S)
    return np.where(concerns, kept_s, 0.0)
