"""Phases, intervals and losses -> the geometry of their pictures, in percent of the room that there is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, isfinite, log

from hotlap.record import LEAST_GAIN, Interval, Number, Phase, Run, as_float
from hotlap.report.scale import LogScale, Scale, mean, percent_of
from hotlap.report.story import PHASE_ORDER, phases
from hotlap.units import duration, percent

# More points than a screen has columns make no finer line, only a larger page.
MAX_POINTS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseBar:
    """One phase before and after; widths in percent of the longest. None: not measured, or no such run."""

    phase: Phase
    before: str
    before_width: float | None
    after: str
    after_width: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Whisker:
    """An interval on the axis of a `Forest`."""

    low: float
    mid: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """Intervals of speed-ups on one logarithmic axis; None where there is none that can be drawn."""

    whiskers: tuple[Whisker | None, ...]
    ticks: tuple[tuple[float, str], ...]
    one: float
    least_gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Losses as lines; a gap is where a loss was not finite or not seen."""

    segments: tuple[str, ...]
    """Points of polylines, "x,y x,y", both in [0, 100]; a lone point is a segment of two equal ones."""
    num_not_finite: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LossChart:
    """Losses before and after on common axes."""

    before: Curve | None
    after: Curve | None
    y_ticks: tuple[tuple[float, str], ...]
    x_ticks: tuple[tuple[float, str], ...]
    steps_per_point: int
    equal: bool
    """The losses of both are equal, bit for bit, at each step."""


def phase_bars(before: Run | None, after: Run | None) -> tuple[PhaseBar, ...]:
    """Mean time a step spends on each phase, before and after; without those that neither run saw."""
    parts = [
        {part.phase: part for part in phases(run)} if run is not None and run.step_s else {} for run in (before, after)
    ]
    longest_s = max((part.mean_s or 0.0 for side in parts for part in side.values()), default=0.0)
    bars = []
    for phase in PHASE_ORDER:
        if all(phase not in side or side[phase].mean_s is None for side in parts):
            continue
        texts, widths = [], []
        for side, run in zip(parts, (before, after), strict=True):
            part = side.get(phase)
            mean_s = part.mean_s if part else (0.0 if run is not None and phase in run.phase_s else None)
            texts.append(
                "not measured" if mean_s is None else f"{duration(mean_s)} ({percent(part.share if part else 0)})"
            )
            widths.append(None if mean_s is None else percent_of(mean_s, longest_s))
        bars.append(
            PhaseBar(phase=phase, before=texts[0], before_width=widths[0], after=texts[1], after_width=widths[1])
        )
    return tuple(bars)


def forest(speedups: Sequence[Interval | None]) -> Forest:
    """The intervals on one axis that also holds 1 and the least gain that is accepted."""
    drawable = [one if one is not None and 1e-6 < one.low <= one.mid <= one.high < 1e6 else None for one in speedups]
    known = [one for one in drawable if one is not None]
    low = min([0.9, *(one.low for one in known)]) / 1.05
    high = max([1.12, *(one.high for one in known)]) * 1.05

    place = LogScale(low, high).place
    return Forest(
        whiskers=tuple(
            Whisker(low=place(one.low), mid=place(one.mid), width=round(place(one.high) - place(one.low), 3))
            if one is not None
            else None
            for one in drawable
        ),
        ticks=tuple((place(tick), f"{tick:g}x") for tick in _ratio_ticks(low, high)),
        one=place(1.0),
        least_gain=place(LEAST_GAIN),
    )


def _ratio_ticks(low: float, high: float) -> tuple[float, ...]:
    """Round ratios between `low` and `high` with room between them, 1 always among them."""
    decades = [float(f"{mantissa}e{power}") for power in range(-9, 7) for mantissa in (1, 2, 3, 5)]
    candidates = (*decades, 0.7, 0.8, 0.9, 1.1, 1.2, 1.5)
    room = log(high / low) / 9
    ticks = [1.0]
    for tick in sorted(candidates, key=lambda ratio: abs(log(ratio))):
        if low < tick < high and all(abs(log(tick / other)) >= room for other in ticks):
            ticks.append(tick)
    return tuple(sorted(ticks))


def loss_chart(before: Run | None, after: Run | None) -> LossChart | None:
    """The losses of both runs; None when no finite one was seen."""
    runs = [run for run in (before, after) if run is not None and run.loss]
    finite = [loss for run in runs for loss in _finite(run.loss) if loss is not None]
    if not finite:
        return None
    low, high = min(finite), max(finite)
    pad = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    y = Scale(low - pad, high + pad)
    if not isfinite(y.high - y.low):
        return None
    x_values = [index for run in runs for index in _step_numbers(run)]
    first, last = min(x_values), max(x_values)
    x = Scale(first, max(last, first + 1))
    stride = max(1, ceil(max(len(run.loss) for run in runs) / MAX_POINTS))
    return LossChart(
        before=_curve(before, x=x, y=y, stride=stride),
        after=_curve(after, x=x, y=y, stride=stride),
        y_ticks=tuple((round(100 - y.place(tick), 3), f"{tick:.3g}") for tick in y.ticks()),
        x_ticks=tuple((x.place(tick), f"{tick:,.0f}") for tick in x.ticks()),
        steps_per_point=stride,
        equal=len(runs) == 2 and runs[0].loss == runs[1].loss and runs[0].step_index == runs[1].step_index,
    )


def _curve(run: Run | None, *, x: Scale, y: Scale, stride: int) -> Curve | None:
    if run is None or not run.loss:
        return None
    losses = _finite(run.loss)
    numbers = _step_numbers(run)
    points: list[str | None] = []
    for start in range(0, len(losses), stride):
        known = [loss for loss in losses[start : start + stride] if loss is not None]
        whole = len(known) == len(losses[start : start + stride])
        points.append(f"{x.place(numbers[start])},{round(100 - y.place(mean(known)), 3)}" if whole else None)
    odd = sum(1 for loss in run.loss if (value := as_float(loss)) is not None and not isfinite(value))
    return Curve(segments=tuple(segments(points)), num_not_finite=odd)


def segments(points: Sequence[str | None]) -> Iterator[str]:
    """Points of a line, None for a gap -> its runs of points between gaps."""
    part: list[str] = []
    for point in [*points, None]:
        if point is not None:
            part.append(point)
        elif part:
            yield " ".join(part if len(part) > 1 else part * 2)
            part = []


def _finite(losses: Sequence[Number]) -> list[float | None]:
    values = (as_float(loss) for loss in losses)
    return [value if value is not None and isfinite(value) else None for value in values]


def _step_numbers(run: Run) -> Sequence[int]:
    """Number in the training of each step that has a loss; counted from 0 where the record does not say."""
    whole = len(run.step_index) >= len(run.loss) and all(a < b for a, b in pairwise(run.step_index))
    return run.step_index[: len(run.loss)] if whole else range(len(run.loss))
