"""What the device did: computing, communication and copies beside it, idle; as TraceLens tells it, by its columns."""

import math
from dataclasses import dataclass

import numpy as np

from hotlap.trace import spans
from hotlap.trace.spans import Spans
from hotlap.trace.table import ON_DEVICE, Kind, Mask, Trace

# Of a recording little is older than its beginning.
_MOST = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Of one device, from its first event to its last; work that was launched before the recording is left out."""

    device: str
    """As the trace numbers it."""
    computing: Spans
    """Kernels, and memory that is set."""
    communication: Spans
    copies: Spans
    start: float
    end: float

    @property
    def busy(self) -> Spans:
        """Anything runs."""
        return spans.either(self.computing, self.communication, self.copies)

    @property
    def exposed_communication(self) -> Spans:
        """It runs beside no computing."""
        return spans.without(self.communication, self.computing)

    @property
    def exposed_copies(self) -> Spans:
        """They run beside neither."""
        return spans.without(self.copies, spans.either(self.computing, self.communication))

    @property
    def total_s(self) -> float:
        """From the first event to the last."""
        return self.end - self.start

    def rows(self) -> list[tuple[str, float, float]]:
        """(name, milliseconds, percent) as TraceLens writes them (AMD-AGI/TraceLens, `gpu_timeline`)."""
        seconds = {
            "computation_time": spans.length(self.computing),
            "exposed_comm_time": spans.length(self.exposed_communication),
            "exposed_memcpy_time": spans.length(self.exposed_copies),
            "busy_time": spans.length(self.busy),
            "idle_time": self.total_s - spans.length(self.busy),
            "total_time": self.total_s,
            "total_comm_time": spans.length(self.communication),
            "total_memcpy_time": spans.length(self.copies),
        }
        # Of work without a length no part is told.
        total_s = self.total_s or math.inf
        return [(name, 1e3 * one, 100 * one / total_s) for name, one in seconds.items()]


def launched(trace: Trace) -> Mask:
    """Events on a device whose launch was recorded; all of them where most launches were not (a trace of the device
    alone, or one whose numbers of launches do not fit)."""
    on_device = trace.which(*ON_DEVICE)
    known = on_device & (trace.launch >= 0)
    lengths = trace.end - trace.start
    return known if known.any() and lengths[known].sum() >= _MOST * lengths[on_device].sum() else on_device


def by_work(trace: Trace) -> dict[str, float]:
    """Device -> seconds of all that ran on it, the one with most first; empty where nothing ran on any."""
    rows = launched(trace)
    worked = np.bincount(trace.lane[rows], weights=trace.end[rows] - trace.start[rows], minlength=len(trace.lanes))
    seconds: dict[str, float] = {}
    for lane in np.unique(trace.lane[rows]):
        device = trace.lanes[lane][0]
        seconds[device] = seconds.get(device, 0.0) + float(worked[lane])
    return dict(sorted(seconds.items(), key=lambda one: -one[1]))


def of_device(trace: Trace, device: str) -> Mask:
    """The events of one device that count."""
    ours = np.fromiter((lane[0] == device for lane in trace.lanes), bool, len(trace.lanes))
    rows: Mask = launched(trace) & ours[trace.lane]
    return rows


def timeline(trace: Trace, rows: Mask, device: str) -> Timeline:
    """Of these events; there is at least one."""

    def of(*kinds: Kind) -> Spans:
        return trace.moments(rows & trace.which(*kinds))

    return Timeline(
        device=device,
        computing=of(Kind.KERNEL, Kind.MEMSET),
        communication=of(Kind.COMMUNICATION),
        copies=of(Kind.COPY),
        start=float(trace.start[rows].min()),
        end=float(trace.end[rows].max()),
    )
