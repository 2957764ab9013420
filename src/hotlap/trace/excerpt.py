"""Some successive steps of a trace as they really went, for a picture: what each lane did, and when."""

from collections.abc import Iterator, Mapping
from statistics import median

import numpy as np

from hotlap.record import Excerpt, Phase, Span
from hotlap.trace import spans
from hotlap.trace.phases import Launched
from hotlap.trace.seen import Seen
from hotlap.trace.spans import Spans

_MOST_STEPS = 6
# Pauses shorter than this part of the excerpt cannot be seen in a picture of it, and would make it a book.
_LEAST_SHARE = 0.0005

Lanes = Mapping[str, Mapping[Phase, Spans]]


def drawn(seen: Seen, launched: Launched) -> Excerpt:
    """The steps that are closest to the median ones."""
    host, edges = seen.host, seen.edges
    lanes: Lanes = {
        "loader": {Phase.INPUT: host.input},
        "host": {
            Phase.SYNC: host.waits,
            Phase.TRANSFER: host.copying,
            Phase.OTHER: host.allocating,
            Phase.OPTIMIZER: host.optimizer,
            Phase.BACKWARD: host.backward,
            Phase.FORWARD: host.operators,
        },
        "device": launched.computing,
        "copies": {Phase.TRANSFER: seen.timeline.copies},
        "network": {Phase.COMMUNICATION: seen.timeline.communication},
    }
    count = min(_MOST_STEPS, seen.count)
    lengths = edges[count:] - edges[:-count]
    first = int(np.argmin(np.abs(lengths - count * median(np.diff(edges)))))
    begin, end = float(edges[first]), float(edges[first + count])
    ends_s = tuple((edges[first + 1 : first + count + 1] - begin).tolist())
    return Excerpt(first=first, ends_s=ends_s, spans=tuple(_spans(lanes, begin, end)))


def _spans(lanes: Lanes, begin: float, end: float) -> Iterator[Span]:
    least = _LEAST_SHARE * (end - begin)
    for lane, phases in lanes.items():
        for phase, moments in phases.items():
            for start, stop in _joined(spans.common(moments, np.array([[begin, end]])), least):
                yield Span(lane=lane, phase=phase, begin_s=float(start - begin), end_s=float(stop - begin))


def _joined(moments: Spans, least: float) -> Spans:
    """Without pauses that are shorter than `least`."""
    return spans.union(moments[:, 0], moments[:, 1] + least) - (0.0, least)
