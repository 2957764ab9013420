"""Predictions -> the table that `hotlap predict` shows."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from statistics import NormalDist

from rich.table import Table

from hotlap.cli.console import console as console_on
from hotlap.cli.traced import Traced
from hotlap.predict import Precision, Workload, forecast, memory, resolve
from hotlap.predict.precision import parse
from hotlap.record import Interval, Prediction
from hotlap.report.story import busy_sentence
from hotlap.units import between, duration, factor, size

Column = tuple[str, list[str]]
"""Heading and cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One prediction, and what else is said of it."""

    prediction: Prediction
    batches: float
    """Samples of a predicted step over those of today's: more with several GPUs, or where a larger batch was asked."""

    @property
    def today_s(self) -> float:
        """Seconds for as many samples as today's step has."""
        return self.prediction.step_s.mid / self.batches


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a table is made of."""

    known: Traced
    rows: tuple[Row, ...]
    steps_per_epoch: int | None
    """Of today's batch; None: not known."""
    precision: str | None = None
    """That the predicted step computes in; None: the script's own."""
    filled: bool = False
    """Each GPU has the largest batch that fits."""

    @property
    def holding(self) -> tuple[Row, ...]:
        """Those whose memory holds the batch, as far as that is known; all, if there is none."""
        return tuple(row for row in self.rows if row.prediction.fits is not False) or self.rows


def show(shown: Shown, *, color: str = "auto") -> None:
    """Print what bounds the step here, the table, why it is so, and what was assumed."""
    # A pipe has no width of its own: lines are kept whole there.
    console = console_on(sys.stdout, color, width=200, soft_wrap=True)
    here, *there = why(shown)
    console.print(here, markup=False)
    columns = [(name, cells) for name, cells in _columns(shown) if any(cell != "-" for cell in cells)]
    for part in parts(columns, width=console.width):
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        for name, _ in part:
            table.add_column(name, no_wrap=name == "GPU")
        for cells in zip(*(cells for _, cells in part), strict=True):
            table.add_row(*cells)
        console.print(table)
    for sentence in there:
        console.print(sentence, markup=False)
    for note in dict.fromkeys(note for row in shown.rows for note in row.prediction.assumptions):
        console.print(f"  assumed: {note}", markup=False)


def parts(columns: list[Column], *, width: int) -> tuple[list[Column], ...]:
    """One table; or, where that is too wide, times in one, and memory and an epoch in another."""
    if sum(1 + max(map(len, (name, *cells))) for name, cells in columns) <= width:
        return (columns,)
    names = [name for name, _ in columns]
    split = names.index("bound by") + 1
    return columns[:split], [columns[0], *columns[split:]]


def _columns(shown: Shown) -> Iterator[Column]:
    """Heading and cells; "-" where there is nothing to say. A column of these alone is left out."""
    rows, found = shown.rows, [row.prediction for row in shown.rows]
    yield "GPU", [row.prediction.title for row in rows]
    yield "step", [duration(one.step_s.mid) for one in found]
    yield "80% interval", [between(duration(one.step_s.low), duration(one.step_s.high)) for one in found]
    yield "speed-up", [_speedup(shown, row) for row in rows]
    yield "slower?", [_chance(shown, row) for row in rows]
    yield "bound by", [one.bound_by for one in found]
    yield "fits", [{True: "yes", False: "no", None: "-"}[one.fits] for one in found]
    yield from _memory(shown)
    yield _epoch(shown)


def _speedup(shown: Shown, row: Row) -> str:
    """Samples a second over those of today."""
    return "-" if shown.known.step_s is None else factor(shown.known.step_s / row.today_s)


def _chance(shown: Shown, row: Row) -> str:
    """That fewer samples a second are trained than today."""
    if shown.known.step_s is None:
        return "-"
    return f"{slower_chance(row.prediction.step_s, than_s=shown.known.step_s * row.batches):.0%}"


def slower_chance(step_s: Interval, *, than_s: float) -> float:
    """Probability that a step takes longer than `than_s`, in [0, 1]: logarithms are taken for normal on either side."""
    off = log(than_s / step_s.mid)
    half = log(step_s.high / step_s.mid) if off > 0 else log(step_s.mid / step_s.low)
    return 1 - NormalDist().cdf(off / half * NormalDist().inv_cdf(0.9))


# One of two predictions that differ by less is not called the fastest: what is predicted errs by far more.
_ALIKE = 1.01

_BOUND = {
    "compute": "products, so the units that multiply decide, and the bandwidth that feeds them",
    "memory": "moving bytes, so bandwidth decides",
    "launch": "the gaps between many small operators, so a larger batch would gain most",
    "host": "Python and launches on the host, so a larger batch or a compiled model gains more than a faster GPU",
    "python": "the script's own Python between its passes, which no GPU shortens",
    "input": "waiting for batches, so the loader decides, and no faster GPU helps",
    "communication": "adding up gradients, so the link between the GPUs decides",
}


def why(shown: Shown) -> tuple[str, ...]:
    """What bounds the step here, and which is fastest."""
    known = shown.known
    title = f"A step of {known.work.name}" if known.work.name else "The step"
    there = _fastest(shown)
    if known.device is None or known.step_s is None:
        return f"{title} was not timed on any device.", there
    measured = forecast(
        known.work,
        target=known.device,
        measured_on=known.device,
        measured_step_s=known.step_s,
        devices=known.devices,
    )
    here = f"{title} takes {duration(known.step_s)} on {known.device}, bound by {_BOUND[measured.bound_by]}."
    busy = busy_sentence(known.run) if known.run is not None else None
    return " ".join(filter(None, (here, busy))), there


def _fastest(shown: Shown) -> str:
    row = min(shown.holding, key=lambda row: row.today_s)
    one = row.prediction
    # No larger batch helps where this one is the largest, or too large.
    cause = _BOUND[one.bound_by].partition(", so a larger batch" if shown.filled or one.fits is False else "\0")[0]
    bound = f"there it is bound by {cause}."
    gain = "" if shown.known.step_s is None else f", {_speedup(shown, row)}"
    if one.fits is False:
        held = "a single sample" if shown.filled else "this batch (--fill: one that it does)"
        none = f"None holds {held}; fastest would be"
        return f"{none} {one.title}{gain}; {bound}"
    alike = sum(other.today_s <= row.today_s * _ALIKE for other in shown.holding)
    if alike > 1:
        return f"The fastest {alike} of {len(shown.rows)} take the same time within {_ALIKE - 1:.0%}{gain}; {bound}"
    return f"Fastest is {one.title}{gain}; {bound}"


def computed_in(work: Workload, asked: str | None = None) -> Precision:
    """On a GPU: what is asked for, or what the script itself asks of one."""
    return parse(asked or work.autocast or work.precision)


def _memory(shown: Shown) -> Iterator[Column]:
    """What each GPU must hold, and the largest batch."""
    work, rows = shown.known.work, shown.rows
    shares = [work.scaled(row.batches / row.prediction.count) for row in rows]
    wanted = computed_in(work, shown.precision)
    needs = [memory.need(share, precision=wanted) for share in shares]
    yield "memory", ["-" if need is None else size(need) for need in needs]
    devices = [resolve(row.prediction.device, extra=shown.known.devices).device for row in rows]
    largest = [memory.largest_batch_factor(work, device, precision=wanted) for device in devices]
    yield "largest batch", [_batch(work.batch_size, value) for value in largest]


def _batch(today: int | None, times: float | None) -> str:
    if times is None:
        return "-"
    return factor(times) if today is None else str(int(today * times) or "none")


def _epoch(shown: Shown) -> Column:
    """Of an epoch, or of a thousand steps of today's batch."""
    steps, unit = shown.steps_per_epoch or 1000, "epoch" if shown.steps_per_epoch else "1000 steps"
    if unit != "epoch" and any(row.batches != 1 for row in shown.rows):
        unit = "1000 of today's batches"
    return unit, [duration(row.today_s * steps) for row in shown.rows]
