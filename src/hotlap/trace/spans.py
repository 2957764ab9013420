"""Sets of moments as sorted spans that do not touch: unions, differences, and how much of one lies in another.

A set is an (N, 2) array of begins and ends in seconds.
"""

import numpy as np
from numpy.typing import NDArray

Spans = NDArray[np.float64]

NONE: Spans = np.zeros((0, 2))


def union(start: NDArray[np.float64], end: NDArray[np.float64]) -> Spans:
    """All moments in which at least one of these spans lasts; what begins and ends in the same moment lasts in none."""
    not_empty = end > start
    start, end = start[not_empty], end[not_empty]
    if not len(start):
        return NONE
    order = np.argsort(start, kind="stable")
    start, latest = start[order], np.maximum.accumulate(end[order])
    first = np.concatenate(([True], start[1:] > latest[:-1]))
    last = np.concatenate((first[1:], [True]))
    return np.column_stack((start[first], latest[last]))


def either(*sets: Spans) -> Spans:
    """Moments of any of the sets."""
    every = np.concatenate(sets) if sets else NONE
    return union(every[:, 0], every[:, 1])


def without(ours: Spans, taken: Spans) -> Spans:
    """Moments of `ours` that are not in `taken`."""
    edges = np.unique(np.concatenate((ours.ravel(), taken.ravel())))
    if len(edges) < 2:
        return ours
    middle = (edges[:-1] + edges[1:]) / 2
    kept = holds(ours, middle) & ~holds(taken, middle)
    return union(edges[:-1][kept], edges[1:][kept])


def common(ours: Spans, others: Spans) -> Spans:
    """Moments of both."""
    return without(ours, without(ours, others))


def length(spans: Spans) -> float:
    """Seconds of all moments."""
    return float(np.sum(spans[:, 1] - spans[:, 0]))


def within(spans: Spans, start: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds of `spans` that lie between each begin and end; 0 where the end is before the begin."""
    return shared(spans, spans[:, 1] - spans[:, 0], start, end)


def shared(
    spans: Spans, amounts: NDArray[np.float64], start: NDArray[np.float64], end: NDArray[np.float64]
) -> NDArray[np.float64]:
    """What of `amounts`, of which each is spread evenly over its span, lies between each begin and end."""
    if not len(spans):
        return np.zeros(len(start))
    levels = np.repeat(np.concatenate(([0.0], np.cumsum(amounts))), 2)[1:-1]
    found = np.interp(end, spans.ravel(), levels) - np.interp(start, spans.ravel(), levels)
    inside: NDArray[np.float64] = np.maximum(found, 0.0)
    return inside


def holds(spans: Spans, moments: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of the moments lie in one of the spans, begins included and ends not."""
    if not len(spans):
        return np.zeros(len(moments), bool)
    at = np.searchsorted(spans[:, 0], moments, side="right") - 1
    holds: NDArray[np.bool_] = (at >= 0) & (moments < spans[np.maximum(at, 0), 1])
    return holds
