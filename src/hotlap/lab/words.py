"""Quantities -> text: one way for terminal, page and story."""

import math
from collections.abc import Callable, Mapping, Sequence

from hotlap.lab.result import Cell, Quantity, Unit
from hotlap.units import duration, factor, percent, size

PREDICTED = "~"
"""Stands before every quantity that was not measured here."""
LEGEND = (
    f"{PREDICTED} predicted, not measured: there is no such GPU here. In parentheses the 80% interval: eight of ten "
    "truths should lie inside."
)


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _number(value: float) -> str:
    return f"{value:.4g}"


_TEXT: Mapping[Unit, Callable[[float], str]] = {
    Unit.SECOND: duration,
    Unit.BYTE: size,
    Unit.RATIO: factor,
    Unit.SHARE: percent,
    Unit.COUNT: _count,
    Unit.NUMBER: _number,
}


def plain(value: float, unit: Unit) -> str:
    """One number with its unit."""
    return _TEXT[unit](value) if math.isfinite(value) else "unknown"


def quantity(one: Quantity) -> str:
    """With its interval where there is one, and the mark of what is predicted."""
    mark = PREDICTED if one.predicted else ""
    text = plain(one.value, one.unit)
    if one.low is None or one.high is None:
        return f"{mark}{text}"
    return f"{mark}{text} ({plain(one.low, one.unit)} to {plain(one.high, one.unit)})"


def cell(one: Cell) -> str:
    """What a table shows."""
    if one is None:
        return "-"
    return one if isinstance(one, str) else quantity(one)


def any_predicted(rows: Sequence[Sequence[Cell]]) -> bool:
    """A table with such a cell needs the legend."""
    return any(isinstance(one, Quantity) and one.predicted for row in rows for one in row)


def times_as(ratio: float, *, faster: str = "as fast", slower: str = "slower") -> str:
    """ "2.31x as fast", or "1.40x slower" for 0.71."""
    return f"{factor(ratio)} {faster}" if ratio >= 1 else f"{factor(1 / ratio)} {slower}"


# Letters whose names begin with a vowel: "an RTX 4090", "an H100".
_SPELT_WITH_A_VOWEL = frozenset("AEFHILMNORSX8")


def an(name: str) -> str:
    """With its article: "an RTX 4090", "a Tesla K40"."""
    first = name.split(" ", maxsplit=1)[0]
    vowel = first[:1] in _SPELT_WITH_A_VOWEL if first == first.upper() else first[:1].upper() in set("AEIOU")
    return f"{'an' if vowel else 'a'} {name}"
