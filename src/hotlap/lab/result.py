"""What an experiment comes to: paragraphs, tables, and the study behind them; and how a terminal shows it. SI units."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from hotlap.machine.figures import median_interval
from hotlap.record import SCHEMA, Interval, Machine, Study
from hotlap.report import document
from hotlap.report.clean import clean, clean_line
from hotlap.report.terminal import draw
from hotlap.units import between, duration, factor

PREDICTED = "~"
"""Stands before every quantity that was not measured here."""
LEGEND = (
    f"{PREDICTED} predicted, not measured: there is no such GPU here. In parentheses the 80% interval: eight of ten "
    "truths should lie inside."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """Seconds that were measured here, or predicted."""

    value: float
    unit: Literal["s"] = "s"
    """For who reads the JSON."""
    low: float | None = None
    """Of the interval: 95% for what was measured, 80% for what was predicted. None: not known."""
    high: float | None = None
    predicted: bool = False
    """Nothing like it was measured: there is no such device here."""

    @classmethod
    def of(cls, interval: Interval, *, predicted: bool = False) -> "Quantity":
        """With the interval's ends."""
        return cls(value=interval.mid, low=interval.low, high=interval.high, predicted=predicted)

    @classmethod
    def median(cls, seconds: Sequence[float]) -> "Quantity":
        """Of what was timed several times."""
        return cls.of(median_interval(seconds))

    def times(self, count: float) -> "Quantity":
        """So many of them."""
        low, high = (None if end is None else end * count for end in (self.low, self.high))
        return Quantity(value=self.value * count, low=low, high=high, predicted=self.predicted)

    def __str__(self) -> str:
        """With its interval where there is one, and the mark of what is predicted."""
        text = f"{PREDICTED if self.predicted else ''}{duration(self.value)}"
        if self.low is None or self.high is None:
            return text
        return f"{text} ({between(duration(self.low), duration(self.high))})"


Cell = Quantity | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells; None is a cell about which nothing is known."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One experiment on this machine. What all have in common (from `name` on) is filled in by `Experiment.run`."""

    story: tuple[str, ...]
    """Paragraphs with this machine's numbers; the first says what came out."""
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    """What the reader must know: which data were used, what was assumed."""
    study: Study | None = None
    """Of the script, where the experiment is about one: shown by the usual reports."""
    name: str = ""
    asks: str = ""
    quick: bool = False
    schema: int = SCHEMA
    hotlap: str = ""
    created: str = ""
    """ISO 8601, UTC."""
    machine: Machine | None = None
    elapsed_s: float = 0.0


def in_words(ratio: Interval | None) -> str:
    """ "1.40x as fast (1.31x to 1.50x)"; what cannot be told apart is said to be so."""
    if ratio is None:
        return "not compared often enough for a ratio"
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


def sections(result: Result) -> Iterator[RenderableType]:
    """For a terminal: the tables, what came out, what to know about it, then the study's own report."""
    quick = " --quick" if result.quick else ""
    yield Text.assemble((f"hotlap lab {clean_line(result.name)}{quick}", "bold"), "  ", clean_line(result.asks))
    yield from map(_table, result.tables)
    yield from (Text(clean(paragraph)) for paragraph in result.story)
    if result.notes:
        yield Text("\n".join(f"- {clean_line(note)}" for note in result.notes), style="dim")
    if result.study is not None:
        # Not its answer, nor that `hotlap levers` says more: the study is not kept, so there is nothing to apply.
        for one in document.sections(result.study):
            yield draw(replace(one, notes=()) if one.name == "trials" else one)


def _table(table: Table) -> RenderableType:
    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for name in table.columns:
        shown.add_column(Text(clean_line(name)), overflow="fold")
    for row in table.rows:
        shown.add_row(*(Text("-" if cell is None else clean_line(str(cell))) for cell in row))
    predicted = any(isinstance(cell, Quantity) and cell.predicted for row in table.rows for cell in row)
    below = (Text(clean_line(note), style="dim") for note in (table.note, LEGEND if predicted else "") if note)
    return Group(Text(clean_line(table.title), style="bold"), shown, *below)
