"""What an experiment comes to: paragraphs, tables, and the study behind them. Units: SI, as everywhere."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hotlap.machine.figures import median_interval
from hotlap.record import Interval, Study
from hotlap.units import duration, factor, percent

# Version of the JSON. 1: with pictures. 2: with the study.
SCHEMA = 2

PREDICTED = "~"
"""Stands before every quantity that was not measured here."""
LEGEND = (
    f"{PREDICTED} predicted, not measured: there is no such GPU here. In parentheses the 80% interval: eight of ten "
    "truths should lie inside."
)


class Unit(StrEnum):
    """What a quantity counts."""

    SECOND = "s"
    RATIO = "x"
    """How many times as fast."""
    SHARE = "share"
    """In [0, 1]."""
    COUNT = "count"


_TEXT: Mapping[Unit, Callable[[float], str]] = {
    Unit.SECOND: duration,
    Unit.RATIO: factor,
    Unit.SHARE: percent,
    Unit.COUNT: lambda value: f"{value:,.0f}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number that was measured here, or one that was predicted.

    Raises:
        ValueError: a ratio has no interval. One training after the other gave 19.72x, and 2.65x minutes later.
    """

    value: float
    unit: Unit
    low: float | None = None
    """Of the interval: 95% for what was measured, 80% for what was predicted. None: not known."""
    high: float | None = None
    predicted: bool = False
    """Nothing like it was measured: there is no such device here."""

    def __post_init__(self) -> None:
        if self.unit is Unit.RATIO and (self.low is None or self.high is None):
            raise ValueError("a ratio needs an interval")

    @classmethod
    def of(cls, interval: Interval, unit: Unit = Unit.SECOND, *, predicted: bool = False) -> "Quantity":
        """With the interval's ends."""
        return cls(value=interval.mid, unit=unit, low=interval.low, high=interval.high, predicted=predicted)

    def times(self, count: float) -> "Quantity":
        """So many of them."""
        low, high = (None if end is None else end * count for end in (self.low, self.high))
        return Quantity(value=self.value * count, unit=self.unit, low=low, high=high, predicted=self.predicted)

    def __str__(self) -> str:
        """With its interval where there is one, and the mark of what is predicted."""
        text = f"{PREDICTED if self.predicted else ''}{self._plain(self.value)}"
        if self.low is None or self.high is None:
            return text
        return f"{text} ({self._plain(self.low)} to {self._plain(self.high)})"

    def _plain(self, value: float) -> str:
        return _TEXT[self.unit](value) if math.isfinite(value) else "unknown"


Cell = Quantity | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells; None is a cell about which nothing is known."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def has_predictions(self) -> bool:
        """It needs the legend."""
        return any(isinstance(cell, Quantity) and cell.predicted for row in self.rows for cell in row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One experiment on this machine."""

    name: str = ""
    """Its experiment's, as the title."""
    title: str = ""
    story: tuple[str, ...]
    """Paragraphs with this machine's numbers; the first says what came out."""
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    """What the reader must know: which data were used, what was assumed."""
    study: Study | None = None
    """Of the script, where the experiment is about one: shown by the usual reports."""
    quick: bool = False
    schema: int = SCHEMA
    hotlap: str = ""
    created: str = ""
    """ISO 8601, UTC."""
    processor: str = ""
    num_cores: int = 0
    gpus: tuple[str, ...] = ()
    elapsed_s: float = 0.0


def seconds(value: float, *, predicted: bool = False) -> Quantity:
    """A time without an interval."""
    return Quantity(value=value, unit=Unit.SECOND, predicted=predicted)


def count(value: float) -> Quantity:
    """A number of things."""
    return Quantity(value=value, unit=Unit.COUNT)


def typical(times_s: Sequence[float]) -> Quantity:
    """The median of repeats, with its interval."""
    return Quantity.of(median_interval(times_s))


def ratio(interval: Interval | None) -> Quantity | None:
    """How many times as fast; None where too few processes were timed."""
    return None if interval is None else Quantity.of(interval, Unit.RATIO)


def in_words(ratio: Interval | None) -> str:
    """ "1.40x as fast (1.31x to 1.50x)"; what cannot be told apart is said to be so."""
    if ratio is None:
        return "compared too seldom for a ratio"
    span = f"{factor(ratio.mid)} as fast, 95% interval {factor(ratio.low)} to {factor(ratio.high)}"
    if ratio.high < 1:
        return f"slower: {span}"
    return span if ratio.low > 1 else f"no difference shown: {span}"


def ahead_from(sizes: Sequence[int], slow: Sequence[Quantity], fast: Sequence[Quantity]) -> int | None:
    """The size from which on `fast` takes less time by the intervals, at all sizes that follow; None: at none."""
    found = None
    for number, one, other in zip(reversed(sizes), reversed(slow), reversed(fast), strict=True):
        if (other.high or other.value) >= (one.low or one.value):
            break
        found = number
    return found
