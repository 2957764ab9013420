"""Numbers over the steps of a run -> lines on common axes: losses, memory, and step times of a long run."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, isfinite

from hotlap.record import NonFinite, Run, as_float
from hotlap.report.scale import Scale, mean
from hotlap.units import duration, size

# More points than a screen has columns make no finer line, only a larger page.
MAX_POINTS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One quantity; a gap is where it is not known."""

    name: str
    style: str
    """Its class on a page."""
    segments: tuple[str, ...]
    """Points of polylines, "x,y x,y", both in [0, 100]; a lone point is a segment of two equal ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Lines over the number of the step."""

    lines: tuple[Line, ...]
    y_ticks: tuple[tuple[float, str], ...]
    x_ticks: tuple[tuple[float, str], ...]
    notes: tuple[str, ...]
    """What is to be known of the points, as clauses."""


Points = Sequence[tuple[int, float | None]]
"""(step, value); steps rise."""

# Round numbers of bytes are not round numbers of MiB or GiB, which are what is shown.
_MIB, _GIB = 1 << 20, 1 << 30


def losses(before: Run | None, after: Run | None) -> Series | None:
    """Of both runs; None when no finite one was seen."""
    named = (("loss of the baseline", "loss-before", before), ("loss optimized", "loss-after", after))
    runs = {(name, style): run for name, style, run in named if run is not None and run.loss}
    stride = max((ceil(len(run.loss) / MAX_POINTS) for run in runs.values()), default=1)
    lines = {name: _thinned(run, stride) for name, run in runs.items()}
    known = [value for points in lines.values() for _, value in points if value is not None]
    if not known:
        return None
    pad = 0.05 * (max(known) - min(known)) or 0.05 * abs(max(known)) or 1.0
    told = [(run.loss, run.step_index) for run in runs.values()]
    notes = {
        f"means of {stride} steps": stride > 1,
        "equal bit for bit": len(told) == 2 and told[0] == told[1],
        "gaps where it was NaN or infinite": any(isinstance(loss, NonFinite) for losses, _ in told for loss in losses),
    }
    return _series(
        lines,
        Scale(min(known) - pad, max(known) + pad),
        lambda value: f"{value:.3g}",
        notes=tuple(note for note, holds in notes.items() if holds),
    )


def _thinned(run: Run, stride: int) -> Points:
    """Means of so many; a gap where one of them is missing or not finite. Steps count from 0 where none is told."""
    told = len(run.step_index) >= len(run.loss) and all(a < b for a, b in pairwise(run.step_index))
    numbers = run.step_index[: len(run.loss)] if told else range(len(run.loss))
    losses = [as_float(loss) for loss in run.loss]
    points = []
    for start in range(0, len(losses), stride):
        part = losses[start : start + stride]
        known = [loss for loss in part if loss is not None and isfinite(loss)]
        points.append((numbers[start], mean(known) if len(known) == len(part) else None))
    return points


def memory(run: Run | None) -> Series | None:
    """Resident and device memory; None where fewer than two moments are known."""
    if run is None:
        return None
    seen: list[tuple[int, int | None, int | None]] = [
        (sample.step, sample.rss_bytes, sample.device_bytes) for sample in run.memory
    ]
    highest = max((value for _, *values in seen for value in values if value is not None), default=0)
    unit = _GIB if highest >= _GIB else _MIB

    def in_units(values: Iterable[int | None]) -> Points:
        return [(step, None if value is None else value / unit) for (step, *_), value in zip(seen, values, strict=True)]

    lines = {
        ("resident", "line-1"): in_units(resident for _, resident, _ in seen),
        ("tensors on the device", "line-2"): in_units(device for *_, device in seen),
    }
    return _from_zero(lines, lambda value: size(value * unit))


def step_times(run: Run | None) -> Series | None:
    """Quantiles of the step over a long run; None for another."""
    if run is None or run.long is None:
        return None
    parts = [(part.first_step + part.num_steps // 2, part) for part in run.long.stretches]
    lines = {
        ("half of the steps are within", "line-1"): [(middle, part.p50_s) for middle, part in parts],
        ("9 of 10 are within", "line-2"): [(middle, part.p90_s) for middle, part in parts],
    }
    return _from_zero(lines, duration)


def _from_zero(lines: Mapping[tuple[str, str], Points], text: Callable[[float], str]) -> Series | None:
    """None where no line has two points."""
    usable = {
        name: [(step, value if value is not None and isfinite(value) and value >= 0 else None) for step, value in line]
        for name, line in lines.items()
    }
    usable = {name: line for name, line in usable.items() if sum(value is not None for _, value in line) > 1}
    if not usable or any(b <= a for (a, _), (b, _) in pairwise(next(iter(usable.values())))):
        return None
    highest = max(value for line in usable.values() for _, value in line if value is not None)
    return _series(usable, Scale(0.0, highest * 1.08 or 1.0), text)


def _series(
    lines: Mapping[tuple[str, str], Points], y: Scale, text: Callable[[float], str], notes: tuple[str, ...] = ()
) -> Series | None:
    """(name, class) -> points; None where they are out of range."""
    steps = [step for points in lines.values() for step, _ in points]
    x = Scale(min(steps), max(*steps, min(steps) + 1))
    if not isfinite(y.high - y.low):
        return None
    return Series(
        lines=tuple(
            Line(name=name, style=style, segments=tuple(_segments(points, x, y)))
            for (name, style), points in lines.items()
        ),
        # A line at the bottom has its tick in the axis.
        y_ticks=tuple((round(100 - y.place(tick), 3), text(tick)) for tick in y.ticks() if tick > y.low),
        x_ticks=tuple((x.place(tick), f"{tick:,.0f}") for tick in x.ticks()),
        notes=notes,
    )


def _segments(points: Points, x: Scale, y: Scale) -> Iterator[str]:
    """Runs of points between gaps."""
    part: list[str] = []
    for step, value in [*points, (0, None)]:
        if value is not None:
            part.append(f"{x.place(step)},{round(100 - y.place(value), 3)}")
        elif part:
            yield " ".join(part if len(part) > 1 else part * 2)
            part = []
