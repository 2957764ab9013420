"""What an experiment hands over: tables, a picture, and what they mean on this machine. Units: SI, as everywhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from hotlap.record import Interval
from hotlap.report.lanes import Timeline

# Version of the JSON. 1: first.
SCHEMA = 1


class Unit(StrEnum):
    """What a quantity counts."""

    SECOND = "s"
    BYTE = "B"
    RATIO = "x"
    """How many times as fast."""
    SHARE = "share"
    """In [0, 1]."""
    COUNT = "count"
    NUMBER = "number"
    """Of no unit: a loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number that was measured here, or one that was predicted."""

    value: float
    unit: Unit
    low: float | None = None
    """Of the interval: 95% for what was measured, 80% for what was predicted. None: not known."""
    high: float | None = None
    predicted: bool = False
    """Nothing like it was measured: there is no such device here."""

    @classmethod
    def of(cls, interval: Interval, unit: Unit, *, predicted: bool = False) -> "Quantity":
        """With the interval's ends."""
        return cls(value=interval.mid, unit=unit, low=interval.low, high=interval.high, predicted=predicted)

    def times(self, factor: float, unit: Unit | None = None) -> "Quantity":
        """`factor` of them."""
        return Quantity(
            value=self.value * factor,
            unit=unit or self.unit,
            low=None if self.low is None else self.low * factor,
            high=None if self.high is None else self.high * factor,
            predicted=self.predicted,
        )

    def into(self, amount: float) -> "Quantity":
        """`amount` over it: how many times as fast as something that takes `amount`."""
        return Quantity(
            value=amount / self.value,
            unit=Unit.RATIO,
            low=None if not self.high else amount / self.high,
            high=None if not self.low else amount / self.low,
            predicted=self.predicted,
        )


Cell = Quantity | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells; None is a cell about which nothing is known."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line of a picture; None is a gap."""

    name: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    """Lower end of a band around it; empty without one."""
    high: tuple[float | None, ...] = ()
    predicted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Lines on common axes."""

    title: str
    x_label: str
    x_unit: Unit
    y_label: str
    y_unit: Unit
    curves: tuple[Curve, ...]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Named quantities of one unit, one below the other, with their intervals."""

    title: str
    unit: Unit
    bars: tuple[tuple[str, Quantity], ...]
    log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """What the parts of the machine did, step by step, in two runs on one axis of time."""

    title: str
    timeline: Timeline
    names: tuple[str, str]
    """Of the two runs."""


Picture = Curves | Bars | Lanes


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One experiment on this machine."""

    name: str
    title: str
    story: tuple[str, ...]
    """Paragraphs in plain words, with this machine's numbers; the first says what came out."""
    tables: tuple[Table, ...]
    pictures: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()
    """What the reader must know: which data were used, what was assumed."""
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


def ratio(value: float, *, predicted: bool = False) -> Quantity:
    """How many times as fast."""
    return Quantity(value=value, unit=Unit.RATIO, predicted=predicted)


def crossing(x: Sequence[float], one: Sequence[float], other: Sequence[float]) -> float | None:
    """Where `other` becomes smaller than `one` and stays so to the end; None where it never does.

    Between two values of `x` the ratio is taken to be a power of `x`, as is usual on logarithmic axes. The first `x`
    where it is smaller everywhere.
    """
    from math import exp, log

    gaps = [log(b / a) for a, b in zip(one, other, strict=True)]
    if not gaps or gaps[-1] >= 0:
        return None
    last = max((k for k, gap in enumerate(gaps) if gap >= 0), default=None)
    if last is None:
        return x[0]
    part = gaps[last] / (gaps[last] - gaps[last + 1])
    return exp(log(x[last]) + part * (log(x[last + 1]) - log(x[last])))
