"""Forecasts and prices -> a picture of time against money: both fall towards the lower left corner."""

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from hotlap.record import Interval
from hotlap.report.clean import clean
from hotlap.report.scale import LogScale
from hotlap.units import duration

_SIZE = 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 150, 20, 50
# Height of a line of text, and width of a letter at most.
_LINE, _LETTER = 14.0, 7.5
NUM_STEPS = 1000

Point = tuple[str, Interval, float, float | None]
"""Name, seconds of a step, times today's batch in it, price of an hour (None: not known)."""


def plot(points: Sequence[Point]) -> str:
    """An SVG element, all texts escaped; "" where no price is known."""
    drawn = [
        (name, Interval(low=step.low / batches, mid=step.mid / batches, high=step.high / batches), per_hour / 3600)
        for name, step, batches, per_hour in points
        if per_hour and 0 < step.low <= step.mid <= step.high < math.inf
    ]
    if not drawn:
        return ""
    times = _axis(end for _, step, _ in drawn for end in (step.low, step.high))
    costs = _axis(NUM_STEPS * end * price for _, step, price in drawn for end in (step.low, step.high))
    width, height = _LEFT + _SIZE + _RIGHT, _TOP + _SIZE + _BOTTOM
    parts = [
        f'<svg role="img" aria-label="Time against price" viewBox="0 0 {width} {height}" width="{width}" '
        'font-family="system-ui,sans-serif" font-size="13" fill="currentColor">',
        *_frame(times, costs),
    ]
    taken: list[tuple[float, float, float]] = []
    for name, step, price in sorted(drawn, key=lambda one: -one[1].mid):
        ends = [(_x(costs, NUM_STEPS * s * price), _y(times, s)) for s in (step.low, step.mid, step.high)]
        (x1, y1), (x, y), (x2, y2) = ends
        left, anchor, beside = _label(x, y, _LETTER * len(name), taken)
        parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#36c" stroke-width="5" stroke-opacity="0.35"/>'
            f'<circle cx="{x}" cy="{y}" r="5" fill="#36c"/>'
            f'<text x="{left}" y="{beside}" text-anchor="{anchor}">{escape(clean(name))}</text>'
        )
    note = (
        "<p>Time for the batch of today's step, and what a thousand of them cost, with 80% intervals: the lower left "
        "is best.</p>"
    )
    return "".join((*parts, "</svg>", note))


def _label(x: float, y: float, width: float, taken: list[tuple[float, float, float]]) -> tuple[float, str, float]:
    """Place and anchor of a name beside its point: right, or left, or lower where both are `taken` (left, right, y)."""
    down = y + 4
    while True:
        for left, anchor, at in ((x + 10, "start", x + 10), (x - 10 - width, "end", x - 10)):
            if not any(abs(down - y0) < _LINE and left < r0 and l0 < left + width for l0, r0, y0 in taken):
                taken.append((left, left + width, down))
                return at, anchor, down
        down += _LINE


def _axis(values: Iterable[float]) -> LogScale:
    known = [*values]
    return LogScale(min(known) / 1.2, max(known) * 1.2)


def _x(axis: LogScale, value: float) -> float:
    return round(_LEFT + _SIZE * axis.place(value) / 100, 1)


def _y(axis: LogScale, value: float) -> float:
    return round(_TOP + _SIZE * (1 - axis.place(value) / 100), 1)


def _frame(times: LogScale, costs: LogScale) -> Iterator[str]:
    right, bottom = _LEFT + _SIZE, _TOP + _SIZE
    for value in times.ticks():
        y = _y(times, value)
        yield f'<line x1="{_LEFT}" x2="{right}" y1="{y}" y2="{y}" stroke="currentColor" stroke-opacity="0.15"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end" fill-opacity="0.7">{duration(value)}</text>'
    for value in costs.ticks():
        x = _x(costs, value)
        yield f'<line x1="{x}" x2="{x}" y1="{_TOP}" y2="{bottom}" stroke="currentColor" stroke-opacity="0.15"/>'
        yield f'<text x="{x}" y="{bottom + 18}" text-anchor="middle" fill-opacity="0.7">{value:g}</text>'
    yield f'<text x="{_LEFT + _SIZE / 2}" y="{bottom + 40}" text-anchor="middle">price of 1000 steps</text>'
