"""What the device did: computing, communication and copies beside it."""

from dataclasses import dataclass

import numpy as np

from hotlap.trace import spans
from hotlap.trace.spans import Spans
from hotlap.trace.table import ON_DEVICE, Kind, Mask, Trace

# Of a recording little is older than its beginning.
_MOST = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Of one device; work that was launched before the recording is left out."""

    computing: Spans
    """Kernels, and memory that is set."""
    communication: Spans
    copies: Spans

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


def timeline(trace: Trace, rows: Mask) -> Timeline:
    """Of these events."""

    def of(*kinds: Kind) -> Spans:
        return trace.moments(rows & trace.which(*kinds))

    return Timeline(
        computing=of(Kind.KERNEL, Kind.MEMSET),
        communication=of(Kind.COMMUNICATION),
        copies=of(Kind.COPY),
    )
