"""Numbers over the steps of a run -> lines on common axes: memory, and step times of a long run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

from hotlap.record import Run
from hotlap.report.charts import segments
from hotlap.report.scale import Scale
from hotlap.units import duration, size


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One quantity; a gap is where it is not known."""

    name: str
    segments: tuple[str, ...]
    """Points of polylines, "x,y x,y", both in [0, 100]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Lines over the number of the step."""

    lines: tuple[Line, ...]
    y_ticks: tuple[tuple[float, str], ...]
    x_ticks: tuple[tuple[float, str], ...]


Values = Sequence[float | None]

# Round numbers of bytes are not round numbers of MiB or GiB, which are what is shown.
_MIB, _GIB = 1 << 20, 1 << 30


def memory(run: Run | None) -> Series | None:
    """Resident and device memory; None where fewer than two moments are known."""
    if run is None:
        return None
    if run.long is not None and len(run.memory) < 2:
        steps = [part.first_step + part.num_steps for part in run.long.stretches]
        found: dict[str, Values] = {
            "resident": [part.rss_bytes for part in run.long.stretches],
            "tensors on the device": [part.device_bytes for part in run.long.stretches],
        }
    else:
        steps = [sample.step for sample in run.memory]
        found = {
            "resident": [sample.rss_bytes for sample in run.memory],
            "tensors on the device": [sample.device_bytes for sample in run.memory],
        }
    highest = max((one for line in found.values() for one in line if one is not None), default=0)
    unit = _GIB if highest >= _GIB else _MIB
    in_units = {name: [None if one is None else one / unit for one in line] for name, line in found.items()}
    return series(steps, in_units, lambda value: size(value * unit))


def step_times(run: Run | None) -> Series | None:
    """Quantiles of the step over a long run; None for another."""
    if run is None or run.long is None:
        return None
    parts = run.long.stretches
    middles = [part.first_step + part.num_steps // 2 for part in parts]
    found: dict[str, Values] = {
        "half of the steps are within": [part.p50_s for part in parts],
        "9 of 10 are within": [part.p90_s for part in parts],
    }
    return series(middles, found, duration)


def series(steps: Sequence[int], values: Mapping[str, Values], unit: Callable[[float], str]) -> Series | None:
    """Lines from 0 up; None where no line has two points."""
    usable = {
        name: [one if one is not None and isfinite(one) and one >= 0 else None for one in line]
        for name, line in values.items()
    }
    usable = {name: line for name, line in usable.items() if sum(one is not None for one in line) > 1}
    if not usable or any(b <= a for a, b in pairwise(steps)):
        return None
    highest = max(one for line in usable.values() for one in line if one is not None)
    x, y = Scale(steps[0], steps[-1]), Scale(0.0, highest * 1.08 or 1.0)
    if not isfinite(y.high):
        return None
    return Series(
        lines=tuple(
            Line(
                name=name,
                segments=tuple(
                    segments(
                        [
                            None if one is None else f"{x.place(step)},{round(100 - y.place(one), 3)}"
                            for step, one in zip(steps, line, strict=True)
                        ]
                    )
                ),
            )
            for name, line in usable.items()
        ),
        y_ticks=tuple((round(100 - y.place(tick), 3), unit(tick)) for tick in y.ticks() if tick > 0),
        x_ticks=tuple((x.place(tick), f"{tick:,.0f}") for tick in x.ticks()),
    )
