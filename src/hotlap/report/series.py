"""Numbers over the steps of a run -> lines on common axes: losses and memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, isfinite

from hotlap.record import NonFinite, Run, as_float
from hotlap.report.scale import Scale, mean
from hotlap.units import size

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
"""(step, value); None where it is not known."""


def losses(before: Run | None, after: Run | None) -> Series | None:
    """Of both runs; None when no finite one was seen."""
    named = (("loss of the baseline", "loss-before", before), ("loss optimized", "loss-after", after))
    runs = {(name, style): run for name, style, run in named if run is not None and run.loss}
    stride = max((ceil(len(run.loss) / MAX_POINTS) for run in runs.values()), default=1)
    told = [(run.loss, run.step_index) for run in runs.values()]
    notes = {
        f"means of {stride} steps": stride > 1,
        "equal bit for bit": len(told) == 2 and told[0] == told[1],
        "gaps where it was NaN or infinite": any(isinstance(loss, NonFinite) for losses, _ in told for loss in losses),
    }
    lines = {name: _thinned(run, stride) for name, run in runs.items()}
    return _series(lines, "{:.3g}".format, notes=[note for note, holds in notes.items() if holds])


def _thinned(run: Run, stride: int) -> Points:
    """Means of so many; a gap where one of them is missing or not finite. Steps count from 0 where none is told."""
    numbers = run.step_index if len(run.step_index) >= len(run.loss) else range(len(run.loss))
    losses = [as_float(loss) for loss in run.loss]
    points = []
    for start in range(0, len(losses), stride):
        part = losses[start : start + stride]
        known = [loss for loss in part if loss is not None and isfinite(loss)]
        points.append((numbers[start], mean(known) if len(known) == len(part) else None))
    return points


def memory(run: Run | None) -> Series | None:
    """Resident and device memory; None where fewer than two moments are known."""
    seen = run.memory if run is not None else ()
    # Round numbers of bytes are not round numbers of MiB or GiB, which are what is shown.
    unit = 1 << (30 if any(max(one.rss_bytes, one.device_bytes or 0) >= 1 << 30 for one in seen) else 20)
    lines: dict[tuple[str, str], Points] = {
        ("resident", "line-1"): [(one.step, one.rss_bytes / unit) for one in seen],
        ("tensors on the device", "line-2"): [
            (one.step, None if one.device_bytes is None else one.device_bytes / unit) for one in seen
        ],
    }
    return _series(lines, lambda value: size(value * unit), from_zero=True)


def _series(
    lines: Mapping[tuple[str, str], Points],
    text: Callable[[float], str],
    *,
    from_zero: bool = False,
    notes: Sequence[str] = (),
) -> Series | None:
    """(name, class) -> points; None where nothing is known, or one moment of what begins at zero."""
    least = 2 if from_zero else 1
    lines = {name: points for name, points in lines.items() if sum(y is not None for _, y in points) >= least}
    steps = [step for points in lines.values() for step, _ in points]
    values = [value for points in lines.values() for _, value in points if value is not None]
    rising = all(a < b for points in lines.values() for (a, _), (b, _) in pairwise(points))
    if not values or not rising or not all(map(isfinite, values)):
        return None
    low, high = min(values), max(values)
    pad = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    x = Scale(min(steps), max(*steps, min(steps) + 1))
    y = Scale(min(0.0, low), high * 1.08 or 1.0) if from_zero else Scale(low - pad, high + pad)
    if not isfinite(y.high - y.low) or y.high <= y.low:
        return None
    return Series(
        lines=tuple(
            Line(name=name, style=style, segments=tuple(_segments(points, x, y)))
            for (name, style), points in lines.items()
        ),
        # A line at the bottom has its tick in the axis.
        y_ticks=tuple((round(100 - y.place(tick), 3), text(tick)) for tick in y.ticks() if tick > y.low),
        x_ticks=tuple((x.place(tick), f"{tick:,.0f}") for tick in x.ticks()),
        notes=tuple(notes),
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
