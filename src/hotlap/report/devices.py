"""Predictions -> step times by device on one logarithmic axis, with intervals, in percent of its width."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log, log10

from hotlap.record import Prediction
from hotlap.units import duration

# No step takes less, or more; an axis that reached further would leave the range of numbers.
_LEAST_S, _MOST_S = 1e-12, 1e12


@dataclass(frozen=True, slots=True)
class Device:
    """One prediction; places are in percent."""

    title: str
    time: str
    low: float
    mid: float
    high: float


@dataclass(frozen=True, slots=True)
class Picture:
    """All predictions on one axis."""

    devices: tuple[Device, ...]
    ticks: tuple[tuple[float, str], ...]
    measured: str
    """The step that was measured, and on which device; "" where none was."""
    measured_at: float


def picture(found: Sequence[Prediction], *, measured: tuple[str, float] | None = None) -> Picture | None:
    """None where there is nothing that can be drawn. `measured`: device and seconds of the step there."""
    drawn = [one for one in found if _LEAST_S < one.step_s.low <= one.step_s.mid <= one.step_s.high < _MOST_S]
    if not drawn:
        return None
    name, step_s = measured if measured and _LEAST_S < measured[1] < _MOST_S else ("", drawn[0].step_s.mid)
    low_s = 0.9 * min(step_s, *(one.step_s.low for one in drawn))
    high_s = 1.1 * max(step_s, *(one.step_s.high for one in drawn))

    def place(value: float) -> float:
        return round(100 * log(value / low_s) / log(high_s / low_s), 2)

    return Picture(
        devices=tuple(
            Device(one.title, duration(one.step_s.mid), *map(place, (one.step_s.low, one.step_s.mid, one.step_s.high)))
            for one in drawn
        ),
        ticks=tuple((place(value), duration(value)) for value in _ticks(low_s, high_s)),
        measured=f"{duration(step_s)} on {name}" if name else "",
        measured_at=place(step_s),
    )


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each decade within; of many decades 1 alone."""
    steps = (1.0, 2.0, 5.0) if high / low < 100 else (1.0,)
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    return [value for decade in decades for step in steps if low < (value := step * 10.0**decade) < high]
