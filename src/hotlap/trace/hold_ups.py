"""What the host was in while the device idled for it: operators, lines of the user's source, what it launched next."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from hotlap.record import IdleReason
from hotlap.trace import spans
from hotlap.trace.host import LOADS, Host
from hotlap.trace.idle import Idle
from hotlap.trace.nesting import Callers, line_of
from hotlap.trace.spans import Spans
from hotlap.trace.table import Kind, Mask, Trace

# Of each reason only the costliest are told, and none below this part of it.
_MOST = 8
_LEAST_SHARE = 0.01
# A trace's names may be of any length, and these stand in sentences.
_LONGEST = 100
_NODE = "autograd::engine::evaluate_function: "
_MARKS = r"ProfilerStep#"


def hold_ups(
    trace: Trace, idle: Idle, host: Host, threads: frozenset[int], who: Callers
) -> Mapping[IdleReason, Mapping[str, float]]:
    """Reason -> what it was -> seconds of all stretches, costliest first; only what has a name in the trace."""
    late = np.column_stack((idle.start, idle.end - idle.why[IdleReason.LAUNCH]))
    ours = np.isin(trace.lane, list(threads))
    operators, frames = ours & trace.which(Kind.OPERATOR), ours & trace.which(Kind.PYTHON)
    frames &= np.array([line_of(name) is not None for name in trace.names])[trace.name]
    loading = frames | (ours & trace.which(Kind.ANNOTATION) & trace.named(LOADS))
    if not frames.any():
        frames = ours & trace.which(Kind.ANNOTATION) & ~trace.named(_MARKS)
    found = {
        IdleReason.INPUT: _innermost(trace, loading, idle, IdleReason.INPUT, spans.common(late, host.input)),
        IdleReason.CALLS: _launched_next(trace, idle, who),
        IdleReason.OPERATORS: _innermost(
            trace, operators, idle, IdleReason.OPERATORS, spans.common(late, host.calling())
        ),
        IdleReason.PYTHON: _innermost(trace, frames, idle, IdleReason.PYTHON, spans.without(late, host.known())),
    }
    return {why: told for why, named in found.items() if (told := _costliest(named, idle.seconds(why)))}


def _costliest(named: Mapping[str, float], total: float) -> dict[str, float]:
    ranked = sorted(named.items(), key=lambda one: -one[1])[:_MOST]
    return {name: seconds for name, seconds in ranked if seconds >= _LEAST_SHARE * total}


def _launched_next(trace: Trace, idle: Idle, who: Callers) -> dict[str, float]:
    """The operators whose kernels the device waited for."""
    found = defaultdict[str, float](float)
    launches = np.where(idle.next >= 0, trace.launch[np.maximum(idle.next, 0)], -1)
    for launch, seconds in zip(launches.tolist(), idle.why[IdleReason.CALLS].tolist(), strict=True):
        if seconds > 0 and launch in who and who[launch].operator >= 0:
            found[_title(trace, who[launch].operator)] += seconds
    return found


def _innermost(trace: Trace, rows: Mask, idle: Idle, why: IdleReason, moments: Spans) -> dict[str, float]:
    """What counts for this reason lies in these moments: it goes to the innermost of the events around each."""
    seconds = np.zeros(len(rows))
    # Of each stretch a part of them, for some of it counts as launching, or as a wait before.
    all_s = spans.within(moments, idle.start, idle.end)
    part = np.divide(idle.why[why], all_s, out=np.zeros_like(all_s), where=all_s > 0)
    amounts = (moments[:, 1] - moments[:, 0]) * part[np.searchsorted(idle.start, moments[:, 0], side="right") - 1]
    seconds[rows] = spans.shared(moments, amounts, trace.start[rows], trace.end[rows])
    chosen = np.flatnonzero(seconds > 0)
    around: dict[int, list[tuple[float, int]]] = defaultdict(list)
    columns = (chosen, trace.lane[chosen], trace.start[chosen], trace.end[chosen])
    for row, lane, start, end in zip(*(one.tolist() for one in columns), strict=True):
        open_ = around[lane]
        while open_ and open_[-1][0] <= start:
            open_.pop()
        if open_:
            seconds[open_[-1][1]] -= seconds[row]
        open_.append((end, row))
    found = defaultdict[str, float](float)
    for row in chosen.tolist():
        found[_title(trace, row)] += max(0.0, float(seconds[row]))
    return found


def _title(trace: Trace, row: int) -> str:
    """ "train.py:31 main" of a line, "MulBackward0" of a node of the backward pass; else the name."""
    name = trace.text(row)
    line = line_of(name) if trace.kind[row] == Kind.PYTHON else None
    title = f"{line.path}:{line.line} {line.function}" if line is not None else name.removeprefix(_NODE)
    return title[:_LONGEST]
