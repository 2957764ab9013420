"""What the host was in while the device idled for it: operators, lines of the user's source, what it launched next."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from hotlap.record import IdleReason
from hotlap.trace import spans
from hotlap.trace.host import LOADS
from hotlap.trace.idle import Idle
from hotlap.trace.nesting import around, line_of
from hotlap.trace.seen import Seen
from hotlap.trace.spans import Spans
from hotlap.trace.table import Floats, Ints, Kind, Mask, Trace

# Of each reason only the costliest are told, and none below this part of it.
_MOST = 8
_LEAST_SHARE = 0.01
# A trace's names may be of any length, and these stand in sentences.
_LONGEST = 100
_NODE = "autograd::engine::evaluate_function: "
_MARKS = r"ProfilerStep#"


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
