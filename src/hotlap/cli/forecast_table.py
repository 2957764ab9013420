"""Predictions -> the table that `hotlap predict` shows."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from rich.table import Table

from hotlap.cli.console import console as console_on
from hotlap.cli.traced import Traced
from hotlap.predict import forecast, memory, resolve
from hotlap.predict.precision import parse
from hotlap.record import Prediction
from hotlap.report.story import busy_sentence
from hotlap.units import between, duration, factor, size

Column = tuple[str, list[str]]
"""Heading and cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a table is made of."""

    known: Traced
    predictions: tuple[Prediction, ...]
    precision: str | None = None
    """That the predicted step computes in; None: the script's own."""

    @property
    def holding(self) -> tuple[Prediction, ...]:
        """Those whose memory holds the batch, as far as that is known; all, if there is none."""
        return tuple(one for one in self.predictions if one.fits is not False) or self.predictions


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
    for note in dict.fromkeys(note for one in shown.predictions for note in one.assumptions):
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
    found = shown.predictions
    yield "GPU", [one.title for one in found]
    yield "step", [duration(one.step_s.mid) for one in found]
    yield "80% interval", [between(duration(one.step_s.low), duration(one.step_s.high)) for one in found]
    yield "speed-up", [_speedup(shown, one) for one in found]
    yield "bound by", [one.bound_by for one in found]
    yield "fits", [{True: "yes", False: "no", None: "-"}[one.fits] for one in found]
    yield from _memory(shown)
    yield _epoch(shown)


def _today_s(one: Prediction) -> float:
    """Seconds for as many samples as today's step has: several GPUs train a batch each."""
    return one.step_s.mid / one.count


def _speedup(shown: Shown, one: Prediction) -> str:
    """Samples a second over those of today."""
    return "-" if shown.known.step_s is None else factor(shown.known.step_s / _today_s(one))


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
    measured = forecast(known.work, target=known.device, measured_on=known.device, measured_step_s=known.step_s)
    name = known.device if isinstance(known.device, str) else known.device.name
    here = f"{title} takes {duration(known.step_s)} on {name}, bound by {_BOUND[measured.bound_by]}."
    busy = busy_sentence(known.run) if known.run is not None else None
    return " ".join(filter(None, (here, busy))), there


def _fastest(shown: Shown) -> str:
    one = min(shown.holding, key=_today_s)
    # No larger batch helps where this one is too large.
    cause = _BOUND[one.bound_by].partition(", so a larger batch" if one.fits is False else "\0")[0]
    bound = f"there it is bound by {cause}."
    gain = "" if shown.known.step_s is None else f", {_speedup(shown, one)}"
    if one.fits is False:
        return f"None holds this batch; fastest would be {one.title}{gain}; {bound}"
    alike = sum(_today_s(other) <= _today_s(one) * _ALIKE for other in shown.holding)
    if alike > 1:
        total = len(shown.predictions)
        which = f"All {total}" if alike == total else f"The fastest {alike} of {total}"
        return f"{which} take the same time within {_ALIKE - 1:.0%}{gain}; {bound}"
    return f"Fastest is {one.title}{gain}; {bound}"


def _memory(shown: Shown) -> Iterator[Column]:
    """What each GPU must hold, and the largest batch."""
    work = shown.known.work
    wanted = parse(shown.precision or work.autocast or work.precision)
    need = memory.need(work, precision=wanted)
    yield "memory", ["-" if need is None else size(need) for _ in shown.predictions]
    devices = [resolve(one.device).device for one in shown.predictions]
    largest = [memory.largest_batch_factor(work, device, precision=wanted) for device in devices]
    yield "largest batch", [_batch(work.batch_size, value) for value in largest]


def _batch(today: int | None, times: float | None) -> str:
    if times is None:
        return "-"
    return factor(times) if today is None else str(int(today * times) or "none")


def _epoch(shown: Shown) -> Column:
    """Of an epoch, or of a thousand steps of today's batch."""
    steps, several = shown.known.steps_per_epoch, any(one.count > 1 for one in shown.predictions)
    unit = "epoch" if steps else "1000 of today's batches" if several else "1000 steps"
    return unit, [duration(_today_s(one) * (steps or 1000)) for one in shown.predictions]
