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
from hotlap.report.story import durations
from hotlap.units import duration, factor, size

Column = tuple[str, list[str]]
"""Heading and cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a table is made of."""

    known: Traced
    found: tuple[Prediction, ...]
    precision: str | None = None
    """That the predicted step computes in; None: the script's own."""

    def gain(self, one: Prediction) -> str:
        """Samples a second over those of today; "-" where today's are not known."""
        return "-" if self.known.step_s is None else factor(self.known.step_s / today_s(one))


def today_s(one: Prediction) -> float:
    """Seconds for as many samples as today's step has: each of several GPUs has that many of its own."""
    return one.step_s.mid / one.count


def show(shown: Shown, *, color: str = "auto") -> None:
    """Print what bounds the step here, the table, why it is so, and what was assumed."""
    # A pipe has no width of its own: lines are kept whole there.
    console = console_on(sys.stdout, color, width=200, soft_wrap=True)
    here, there = why(shown)
    console.print(here, markup=False)
    columns = [(name, cells) for name, cells in _columns(shown) if any(cell != "-" for cell in cells)]
    for part in parts(columns, width=console.width):
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        for name, _ in part:
            table.add_column(name, no_wrap=name == "GPU")
        for cells in zip(*(cells for _, cells in part), strict=True):
            table.add_row(*cells)
        console.print(table)
    console.print(there, markup=False)
    for note in dict.fromkeys(note for one in shown.found for note in one.assumptions):
        console.print(f"  assumed: {note}", markup=False)


def parts(columns: list[Column], *, width: int) -> tuple[list[Column], ...]:
    """One table; or, where that is too wide, times in one, and memory and costs in another."""
    if sum(1 + max(map(len, (name, *cells))) for name, cells in columns) <= width:
        return (columns,)
    split = [name for name, _ in columns].index("bound by") + 1
    return columns[:split], [columns[0], *columns[split:]]


def _columns(shown: Shown) -> Iterator[Column]:
    """Heading and cells; "-" where there is nothing to say. A column of these alone is left out."""
    found, work, known = shown.found, shown.known.work, shown.known
    precision = parse(shown.precision or work.autocast or work.precision)
    need = memory.need(work, precision=precision)
    yield "GPU", [one.title for one in found]
    yield "step", [duration(one.step_s.mid) for one in found]
    yield "80% interval", [durations(one.step_s) for one in found]
    yield "speed-up", [shown.gain(one) for one in found]
    yield "bound by", [one.bound_by for one in found]
    yield "fits", [{True: "yes", False: "no", None: "-"}[one.fits] for one in found]
    yield "memory", ["-" if need is None else size(need)] * len(found)
    devices = [resolve(one.device, extra=known.devices).device for one in found]
    largest = [memory.largest_batch_factor(work, device, precision=precision) for device in devices]
    yield "largest batch", [_batch(work.batch_size, times) for times in largest]
    epoch = known.steps_per_epoch
    yield "epoch" if epoch else "1000 steps", [duration(today_s(one) * (epoch or 1000)) for one in found]


def _batch(today: int | None, times: float | None) -> str:
    if times is None:
        return "-"
    return factor(times) if today is None else str(int(today * times) or "none")


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


def why(shown: Shown) -> tuple[str, str]:
    """What bounds the step here; and which GPU is fastest, and what bounds it there."""
    known = shown.known
    title = f"A step of {known.work.name}" if known.work.name else "The step"
    if known.device is None or known.step_s is None:
        return f"{title} was not timed on any device.", _fastest(shown)
    measured = forecast(
        known.work,
        target=known.device,
        measured_on=known.device,
        measured_step_s=known.step_s,
        devices=known.devices,
    )
    bound = _BOUND[measured.bound_by]
    return f"{title} takes {duration(known.step_s)} on {known.device}, bound by {bound}.", _fastest(shown)


def _fastest(shown: Shown) -> str:
    """Of those whose memory holds the batch, as far as that is known; of all, if there is none."""
    holding = [one for one in shown.found if one.fits is not False] or shown.found
    one = min(holding, key=today_s)
    gain = "" if shown.known.step_s is None else f", {shown.gain(one)}"
    told = f"{gain}; there it is bound by {_BOUND[one.bound_by]}."
    alike = sum(today_s(other) <= today_s(one) * _ALIKE for other in holding)
    if one.fits is False:
        return f"None holds this batch; fastest would be {one.title}{told}"
    if alike > 1:
        return f"The fastest {alike} of {len(shown.found)} take the same time within {_ALIKE - 1:.0%}{told}"
    return f"Fastest is {one.title}{told}"
