"""Predictions -> the table that `hotlap predict` shows."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hotlap.units import duration, factor, percent, size

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


def show(shown: Shown, *, levers: bool) -> None:
    """Print the table, what was assumed, and what `levers` would give."""
    from rich.table import Table

    from hotlap.cli.live import PipedConsole

    # A pipe has no width of its own: lines are kept whole there.
    console = PipedConsole(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 200)
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
    for note in dict.fromkeys(note for one in shown.found for note in one.assumptions):
        console.print(f"  assumed: {note}", markup=False)
    if levers:
        for name in dict.fromkeys(one.device for one in shown.found):
            _show_levers(console, known, name)


def _columns(shown: Shown) -> Iterator[tuple[str, list[str]]]:
    """Heading and cells; "-" where there is nothing to say. A column of these alone is left out."""
    found = shown.found
    yield "device", [one.device for one in found]
    yield "count", [str(one.count) for one in found]
    yield "step", [duration(one.step_s.mid) for one in found]
    yield "80% interval", [f"{duration(one.step_s.low)} to {duration(one.step_s.high)}" for one in found]
    yield "speed-up", [_speedup(shown, one) for one in found]
    yield "efficiency", [f"{one.efficiency:.2f}" if one.efficiency and one.count > 1 else "-" for one in found]
    yield "bound by", [one.bound_by for one in found]
    yield "fits", [{True: "yes", False: "no", None: "?"}[one.fits] for one in found]
    yield from _memory(shown)
    yield from _costs(shown)


def _speedup(shown: Shown, one: "Prediction") -> str:
    """Samples a second over those of today."""
    if shown.known.step_s is None:
        return "-"
    return factor(shown.known.step_s * (1 if shown.strong else one.count) / one.step_s.mid)


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


def _show_levers(console: Any, known: "Traced", name: str) -> None:
    from hotlap.predict import outlook

    console.print(f"\nOn {name}, a change alone would give:", markup=False)
    measured = (known.device, known.step_s) if known.device and known.step_s else None
    for one in outlook.levers(known.work, target=name, devices=known.devices, measured=measured):
        gain = one.speedup
        console.print(
            f"  {one.lever:16} {factor(gain.mid)} ({factor(gain.low)} to {factor(gain.high)}), "
            f"slower with a chance of {percent(one.slower_chance)}",
            markup=False,
        )
