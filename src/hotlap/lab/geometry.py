"""Pictures of a result -> places in percent of the room that there is; the template draws them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from hotlap.lab.result import Bars, Curve, Curves, Quantity, Unit
from hotlap.lab.words import plain, quantity
from hotlap.report.charts import segments
from hotlap.report.scale import Scale

# Beyond this neither axis nor labels make sense.
_MOST = 1e15
# On a logarithmic axis of fewer decades than this, 2 and 5 are labelled as well.
_FEW_DECADES = 2.5
_MOST_LABELS = 9
_SI: tuple[tuple[float, str], ...] = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Values -> percent of the axis."""

    scale: Scale
    log: bool
    unit: Unit

    @classmethod
    def of(cls, values: Sequence[float], unit: Unit, *, log: bool) -> "Axis | None":
        """Round `values`; None where they have no extent that can be drawn."""
        usable = [value for value in values if isfinite(value) and abs(value) < _MOST and (value > 0 or not log)]
        if not usable:
            return None
        if log:
            low, high = log10(min(usable)), log10(max(usable))
            room = 0.04 * (high - low) or 0.5
            return cls(scale=Scale(low - room, high + room), log=True, unit=unit)
        low, high = min(0.0, *usable), max(usable)
        room = 0.06 * (high - low) or 1.0
        return cls(scale=Scale(low - (room if low < 0 else 0.0), high + room), log=False, unit=unit)

    def place(self, value: float | None) -> float | None:
        """Percent; None where it cannot be shown."""
        if value is None or not isfinite(value) or abs(value) >= _MOST or (self.log and value <= 0):
            return None
        return round(self.scale.place(log10(value) if self.log else value), 3)

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """(percent, label)."""
        values = tuple(self._decades()) if self.log else tuple(self._round())
        step = ceil(len(values) / _MOST_LABELS)
        return tuple(
            (place, label(value, self.unit)) for value in values[::step] if (place := self.place(value)) is not None
        )

    def _round(self) -> Iterator[float]:
        # Round numbers of bytes are not round numbers of MiB, which is what is shown.
        whole = 1 << 20 if self.unit is Unit.BYTE else 1
        yield from (whole * tick for tick in Scale(self.scale.low / whole, self.scale.high / whole).ticks())

    def _decades(self) -> Iterator[float]:
        low, high = self.scale.low, self.scale.high
        steps = (1, 2, 5) if high - low < _FEW_DECADES else (1,)
        for power in range(floor(low), ceil(high) + 1):
            for step in steps:
                value = step * 10.0**power
                if low <= log10(value) <= high:
                    yield value


def label(value: float, unit: Unit) -> str:
    """A round value on an axis: "10 us", "2k"."""
    if unit is Unit.SECOND:
        for factor, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
            if abs(value) >= factor * 0.9999:
                return f"{value / factor:.4g} {name}"
        return "0" if value == 0 else f"{value * 1e9:.4g} ns"
    if unit in (Unit.COUNT, Unit.NUMBER):
        for factor, name in _SI:
            if abs(value) >= factor:
                return f"{value / factor:.4g}{name}"
        return f"{value:.4g}"
    return plain(value, unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One curve; points of polylines and polygons, "x,y x,y", both in [0, 100]."""

    name: str
    number: int
    segments: tuple[str, ...]
    band: str
    """Of the polygon around it; empty without one."""
    dots: tuple[tuple[float, float, str], ...]
    """x, y and what it says."""
    predicted: bool


# More dots than this are a band of their own.
_MOST_DOTS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines on axes."""

    lines: tuple[Line, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]


def chart(picture: Curves) -> Chart | None:
    """None where nothing can be drawn."""
    x = Axis.of([value for curve in picture.curves for value in curve.x], picture.x_unit, log=picture.log_x)
    heights = [
        value
        for curve in picture.curves
        for line in (curve.y, curve.low, curve.high)
        for value in line
        if value is not None
    ]
    y = Axis.of(heights, picture.y_unit, log=picture.log_y)
    if x is None or y is None:
        return None
    lines = tuple(_line(curve, number, x, y) for number, curve in enumerate(picture.curves, start=1))
    return Chart(
        lines=lines,
        x_ticks=x.ticks(),
        y_ticks=tuple((round(100 - place, 3), text) for place, text in y.ticks()),
    )


def _line(curve: Curve, number: int, x: Axis, y: Axis) -> Line:
    places = [_point(x.place(a), y.place(b)) for a, b in zip(curve.x, curve.y, strict=True)]
    dots = [
        (*place, f"{label(a, x.unit)}: {plain(b, y.unit)}")
        for a, b, place in zip(curve.x, curve.y, places, strict=True)
        if place is not None and b is not None
    ]
    return Line(
        name=curve.name,
        number=number,
        segments=tuple(segments([None if place is None else f"{place[0]},{place[1]}" for place in places])),
        band=_band(curve, x, y),
        dots=tuple(dots) if len(dots) <= _MOST_DOTS else (),
        predicted=curve.predicted,
    )


def _point(x: float | None, y: float | None) -> tuple[float, float] | None:
    return None if x is None or y is None else (x, round(100 - y, 3))


def _band(curve: Curve, x: Axis, y: Axis) -> str:
    if not curve.low or not curve.high:
        return ""
    upper = [_point(x.place(a), y.place(b)) for a, b in zip(curve.x, curve.high, strict=True)]
    lower = [_point(x.place(a), y.place(b)) for a, b in zip(curve.x, curve.low, strict=True)]
    around = [place for place in (*upper, *reversed(lower)) if place is not None]
    return " ".join(f"{a},{b}" for a, b in around) if len(around) > 2 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One bar: where it ends, and its interval."""

    name: str
    text: str
    mid: float | None
    low: float | None
    high: float | None
    predicted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Bars on one axis."""

    rows: tuple[Row, ...]
    ticks: tuple[tuple[float, str], ...]
    log: bool
    """A bar has no length there: a dot stands for it."""


def rows(picture: Bars) -> Rows | None:
    """None where nothing can be drawn."""
    ends = [end for _, one in picture.bars for end in (one.low, one.value, one.high) if end is not None]
    axis = Axis.of(ends, picture.unit, log=picture.log)
    if axis is None:
        return None
    return Rows(
        rows=tuple(_row(name, one, axis) for name, one in picture.bars),
        ticks=axis.ticks(),
        log=picture.log,
    )


def _row(name: str, one: Quantity, axis: Axis) -> Row:
    return Row(
        name=name,
        text=quantity(one),
        mid=axis.place(one.value),
        low=axis.place(one.low),
        high=axis.place(one.high),
        predicted=one.predicted,
    )
