"""Phases and intervals -> the geometry of their pictures, in percent of the room that there is."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from hotlap.record import LEAST_GAIN, Interval, Phase, Run
from hotlap.report.scale import LogScale, percent_of
from hotlap.report.story import LETTERS, phases
from hotlap.units import duration, percent


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


def phase_bars(before: Run | None, after: Run | None) -> tuple[PhaseBar, ...]:
    """Mean time a step spends on each phase, before and after; without those that neither run saw."""
    parts = [
        {part.phase: part for part in phases(run)} if run is not None and run.step_s else {} for run in (before, after)
    ]
    longest_s = max((part.mean_s or 0.0 for side in parts for part in side.values()), default=0.0)
    bars = []
    for phase in LETTERS:
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
