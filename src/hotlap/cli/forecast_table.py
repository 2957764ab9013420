"""Predictions -> the table that `hotlap predict` shows."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotlap.units import duration, factor, size

if TYPE_CHECKING:
    from hotlap.cli.traced import Traced
    from hotlap.record import Prediction

JOULES_A_KWH = 3.6e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a table is made of."""

    known: "Traced"
    found: "tuple[Prediction, ...]"
    strong: bool
    """Several GPUs share the batch of one."""
    steps_per_epoch: int | None
    """With one GPU; None: not known."""
    price: float | None
    """Of one GPU for an hour, in the user's currency."""


def show(shown: Shown, *, color: str = "auto") -> None:
    """Print the table, why it is so in three sentences, and what was assumed."""
    from rich.table import Table

    from hotlap.cli.console import console as console_on

    # A pipe has no width of its own: lines are kept whole there.
    console = console_on(sys.stdout, color, width=200, soft_wrap=True)
    known = shown.known
    if known.step_s is not None:
        console.print(
            f"{known.work.name or 'The step'} takes {duration(known.step_s)} on {known.device}.", markup=False
        )
    columns = {name: cells for name, cells in _columns(shown) if any(cell != "-" for cell in cells)}
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, no_wrap=True)
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    console.print(table)
    for sentence in _why(shown):
        console.print(sentence, markup=False)
    for note in dict.fromkeys(note for one in shown.found for note in one.assumptions):
        console.print(f"  assumed: {note}", markup=False)


def _columns(shown: Shown) -> Iterator[tuple[str, list[str]]]:
    """Heading and cells; "-" where there is nothing to say. A column of these alone is left out."""
    found = shown.found
    yield "device", [one.device for one in found]
    yield "count", [str(one.count) for one in found]
    yield "step", [duration(one.step_s.mid) for one in found]
    yield "80% interval", [f"{duration(one.step_s.low)} to {duration(one.step_s.high)}" for one in found]
    yield "speed-up", [_speedup(shown, one) for one in found]
    yield "efficiency", [f"{one.efficiency:.2f}" if one.efficiency and one.count > 1 else "-" for one in found]
    yield "slower?", [_chance(shown, one) for one in found]
    yield "bound by", [one.bound_by for one in found]
    yield "fits", [{True: "yes", False: "no", None: "?"}[one.fits] for one in found]
    yield from _memory(shown)
    yield from _costs(shown)


def _speedup(shown: Shown, one: "Prediction") -> str:
    """Samples a second over those of today."""
    if shown.known.step_s is None:
        return "-"
    return factor(_today_s(shown, one) / one.step_s.mid)


def _chance(shown: Shown, one: "Prediction") -> str:
    """That fewer samples a second are trained than today."""
    from hotlap.predict import outlook

    if shown.known.step_s is None:
        return "-"
    return f"{outlook.slower_chance(one.step_s, than_s=_today_s(shown, one)):.0%}"


def _today_s(shown: Shown, one: "Prediction") -> float:
    """Seconds that the samples of one predicted step take today."""
    return (shown.known.step_s or 0.0) * (1 if shown.strong else one.count)


_BOUND = {
    "compute": "its products, so the units that multiply decide, and the bandwidth that feeds them",
    "memory": "moving bytes, so bandwidth decides",
    "launch": "the gaps between many small operators, so a larger batch would gain most",
    "host": "Python and launches on the host, so a larger batch or a compiled model gains more than a faster GPU",
    "input": "waiting for batches, so the loader decides and no GPU helps",
    "communication": "adding up gradients, so the link between the GPUs decides",
}


def _why(shown: Shown) -> Iterator[str]:
    """What bounds the step here, what bounds the fastest, and which takes the least energy."""
    from hotlap.predict import forecast, outlook

    known, found = shown.known, shown.found
    if known.device is not None:
        here = forecast(known.work, target=known.device, devices=known.devices).bound_by
        yield f"Here the step is bound by {_BOUND[here]}."
    fastest = min(found, key=lambda one: one.step_s.mid / (1 if shown.strong else one.count))
    yield f"Fastest is {_name(fastest)}: there it is bound by {_BOUND[fastest.bound_by]}."
    if len(found) > 1:
        joules = {
            one: outlook.energy_j(one, devices=known.devices) / (1 if shown.strong else one.count) for one in found
        }
        least = min(found, key=lambda one: joules[one])
        yield f"Least energy takes {_name(least)}: {joules[least]:.3g} J for the batch of a step."


def _name(one: "Prediction") -> str:
    return one.device if one.count == 1 else f"{one.count} x {one.device}"


def _memory(shown: Shown) -> Iterator[tuple[str, list[str]]]:
    """What each GPU must hold: with everything on each, with FSDP; and the largest batch."""
    from hotlap.predict import catalogue, memory

    work, found = shown.known.work, shown.found
    if memory.need(work) is None:
        return
    targets = [catalogue.resolve(one.device, extra=shown.known.devices).device for one in found]
    shares = [work.scaled(1 / one.count) if shown.strong else work for one in found]
    needs = [memory.need(share) for share in shares]
    sharded = [memory.need(share, shards=one.count) for share, one in zip(shares, found, strict=True)]
    yield "memory", [size(need.total) if need else "-" for need in needs]
    yield (
        "with FSDP",
        [size(need.total) if need and one.count > 1 else "-" for need, one in zip(sharded, found, strict=True)],
    )
    largest = [memory.largest_batch_factor(work, target) if target.kind == "gpu" else None for target in targets]
    yield "largest batch", [_batch(work.batch_size, value) for value in largest]


def _batch(today: int | None, times: float | None) -> str:
    if times is None:
        return "-"
    if today is None or today * times < 1:
        return factor(times)
    return str(int(today * times))


def _costs(shown: Shown) -> Iterator[tuple[str, list[str]]]:
    from hotlap.predict import outlook

    joules = [outlook.energy_j(one, devices=shown.known.devices) for one in shown.found]
    if shown.steps_per_epoch is None:
        yield "energy a step", [f"{value:.3g} J" for value in joules]
        return
    steps = [max(1, round(shown.steps_per_epoch / (1 if shown.strong else one.count))) for one in shown.found]
    energies = [value * number / JOULES_A_KWH for value, number in zip(joules, steps, strict=True)]
    yield "an epoch", [duration(one.step_s.mid * number) for one, number in zip(shown.found, steps, strict=True)]
    yield "energy an epoch", [f"{value:.2g} kWh" for value in energies]
    if shown.price is not None:
        prices = [
            outlook.price(one, num_steps=number, per_hour=shown.price)
            for one, number in zip(shown.found, steps, strict=True)
        ]
        yield "price an epoch", [f"{value:.2f}" if value >= 0.1 else f"{value:.2g}" for value in prices]
