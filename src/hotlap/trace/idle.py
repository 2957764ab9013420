"""Why the device idled, and what the host was in meanwhile: operators, lines of the source, what it launched next.

Reads; the trace's own words decide.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotlap.record import IdleReason
from hotlap.trace import spans
from hotlap.trace.host import LOADS, wait_rows
from hotlap.trace.nesting import around, line_of
from hotlap.trace.seen import Seen
from hotlap.trace.spans import Spans
from hotlap.trace.table import Floats, Ints, Kind, Mask, Trace

# A wait that ended so long before the device came to rest has nothing to do with it.
_AFTER_WAIT_S = 50e-6
# Of each reason only the costliest are told, and none below this part of it.
_MOST = 8
_LEAST_SHARE = 0.01
# A trace's names may be of any length, and these stand in sentences.
_LONGEST = 100
_NODE = "autograd::engine::evaluate_function: "
_MARKS = r"ProfilerStep#"


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


def hold_ups(seen: Seen, idle: Idle) -> Mapping[IdleReason, Mapping[str, float]]:
    """Reason -> what it was -> seconds of all stretches, costliest first; only what has a name in the trace."""
    trace, host = seen.trace, seen.host
    late = np.column_stack((idle.start, idle.end - idle.why[IdleReason.LAUNCH]))
    ours = np.isin(trace.lane, list(seen.threads))
    operators, frames = ours & trace.which(Kind.OPERATOR), seen.who.frames
    loading = frames | (ours & trace.which(Kind.ANNOTATION) & trace.named(LOADS))
    if not frames.any():
        frames = ours & trace.which(Kind.ANNOTATION) & ~trace.named(_MARKS)
    found = {
        IdleReason.INPUT: _innermost(trace, loading, idle, IdleReason.INPUT, spans.common(late, host.input)),
        IdleReason.CALLS: _launched_next(seen, idle),
        IdleReason.OPERATORS: _innermost(
            trace, operators, idle, IdleReason.OPERATORS, spans.common(late, host.calling())
        ),
        IdleReason.PYTHON: _innermost(trace, frames, idle, IdleReason.PYTHON, spans.without(late, host.known())),
    }
    return {why: told for why, named in found.items() if (told := _costliest(named, idle.seconds(why)))}


def _costliest(named: Mapping[str, float], total: float) -> dict[str, float]:
    ranked = sorted(named.items(), key=lambda one: -one[1])[:_MOST]
    return {name: seconds for name, seconds in ranked if seconds >= _LEAST_SHARE * total}


def _launched_next(seen: Seen, idle: Idle) -> dict[str, float]:
    """The operators whose kernels the device waited for."""
    operators = np.where(idle.next >= 0, seen.who.launched_in(np.maximum(idle.next, 0)), -1)
    return _titled(seen.trace, operators, idle.why[IdleReason.CALLS] * (operators >= 0))


def _innermost(trace: Trace, rows: Mask, idle: Idle, why: IdleReason, moments: Spans) -> dict[str, float]:
    """What counts for this reason lies in these moments: it goes to the innermost of the events around each."""
    seconds = np.zeros(len(rows))
    # Of each stretch a part of them, for some of it counts as launching, or as a wait before.
    all_s = spans.within(moments, idle.start, idle.end)
    part = np.divide(idle.why[why], all_s, out=np.zeros_like(all_s), where=all_s > 0)
    amounts = (moments[:, 1] - moments[:, 0]) * part[np.searchsorted(idle.start, moments[:, 0], side="right") - 1]
    seconds[rows] = spans.shared(moments, amounts, trace.start[rows], trace.end[rows])
    chosen = np.flatnonzero(seconds > 0)
    outer = around(trace, chosen, rows)
    own = seconds.copy()
    np.subtract.at(own, outer[outer >= 0], seconds[chosen[outer >= 0]])
    return _titled(trace, chosen, np.maximum(0.0, own[chosen]))


def _titled(trace: Trace, rows: Ints, seconds: Floats) -> dict[str, float]:
    found = defaultdict[str, float](float)
    for row, spent in zip(rows.tolist(), seconds.tolist(), strict=True):
        if spent > 0:
            found[_title(trace, row)] += spent
    return found


def _title(trace: Trace, row: int) -> str:
    """ "train.py:31 main" of a line, "MulBackward0" of a node of the backward pass; else the name."""
    name = trace.text(row)
    line = line_of(name) if trace.kind[row] == Kind.PYTHON else None
    title = f"{line.path}:{line.line} {line.function}" if line is not None else name.removeprefix(_NODE)
    return title[:_LONGEST]
