"""What the device did, by where it was launched; and its idle stretches, by what it waited for."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotlap.record import IdleReason, Phase
from hotlap.trace import spans
from hotlap.trace.idle import Idle
from hotlap.trace.seen import Seen
from hotlap.trace.spans import Spans
from hotlap.trace.table import Floats, Kind

# In this order: what is launched while an optimizer steps is the optimizer's, and all that is left is forward.
COMPUTING = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.INPUT)

# None: what the device waits for while the model or the optimizer is launched belongs to that phase.
_IDLE_PHASE: Mapping[IdleReason, Phase | None] = {
    IdleReason.INPUT: Phase.INPUT,
    IdleReason.SYNC: Phase.SYNC,
    IdleReason.ALLOCATION: Phase.OTHER,
    IdleReason.OPERATORS: Phase.OTHER,
    IdleReason.PYTHON: Phase.OTHER,
    IdleReason.CALLS: None,
    IdleReason.LAUNCH: None,
}


@dataclass(frozen=True, slots=True)
class Launched:
    """Where the events on a device were launched."""

    phases: np.ndarray
    """(N,) index into the phases that compute."""
    computing: Mapping[Phase, Spans]
    """Kernels, and memory that is set; a moment of two phases is the first one's."""


def launched(seen: Seen) -> Launched:
    """By the moment of the call that launched each."""
    trace = seen.trace
    calls = trace.start[np.maximum(trace.launch, 0)]
    found = np.zeros(len(trace.start), np.int8)
    for phase, moments in seen.host.training.items():
        inside = (trace.launch >= 0) & (spans.within(moments, calls, calls + 1e-9) > 0)
        found[inside & (found == 0)] = COMPUTING.index(phase)
    computes = seen.rows & trace.which(Kind.KERNEL, Kind.MEMSET)
    computing: dict[Phase, Spans] = {}
    for number, phase in enumerate(COMPUTING):
        ours = trace.moments(computes & (found == number))
        computing[phase] = spans.without(ours, spans.either(*computing.values()))
    return Launched(found, computing)


def seconds(seen: Seen, ours: Launched, idle: Idle) -> dict[Phase, tuple[float, ...] | None]:
    """Phase -> (S,). Communication and copies count as far as nothing computes beside them."""
    found, edges = seen.timeline, seen.edges
    exposed = {Phase.COMMUNICATION: found.exposed_communication, Phase.TRANSFER: found.exposed_copies}
    parts: dict[Phase, Floats] = {
        phase: spans.within(moments, edges[:-1], edges[1:]) for phase, moments in {**exposed, **ours.computing}.items()
    }
    parts |= {phase: np.zeros(len(edges) - 1) for phase in (Phase.SYNC, Phase.OTHER)}
    gaps = np.column_stack((idle.start, idle.end))
    model = ours.phases[np.maximum(idle.next, 0)]
    for why, told in _IDLE_PHASE.items():
        for number, phase in enumerate(COMPUTING):
            lost = np.where(model == number, idle.why[why], 0.0)
            parts[told or phase] += spans.shared(gaps, lost, edges[:-1], edges[1:])
    return {phase: tuple(values.tolist()) for phase, values in parts.items()}
