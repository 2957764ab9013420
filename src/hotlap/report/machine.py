"""Checkup -> what a terminal says of it, section by section."""

from collections.abc import Iterator

from rich.console import RenderableType

from hotlap.record import Checkup, Figure, Unit
from hotlap.report.document import Row, Section
from hotlap.report.terminal import draw
from hotlap.units import between, duration, percent, size

_TITLES = {
    "matmul": "matrix product",
    "read": "memory, read",
    "copy": "memory, copy",
    "triad": "memory, a = b + 2c",
    "operator": "small operator",
    "operator-autograd": "with autograd, both ways",
    "launch": "floor of a call",
    "to-device": "copy to the device",
    "to-host": "copy to the host",
}
_LEAD = "The median of the repeats (its 95% interval), and how much they differ."
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def sections(checkup: Checkup) -> Iterator[RenderableType]:
    """In the order in which they are read."""
    yield draw(
        Section(name="machine", title=checkup.machine.processor or "An unknown processor", notes=_parts(checkup))
    )
    for device in dict.fromkeys(figure.device for figure in checkup.figures):
        rows = tuple(_row(figure) for figure in checkup.figures if figure.device == device)
        yield draw(Section(name="figures", title=_device(checkup, device), lead=_LEAD, rows=rows))
    wrong = tuple(
        Row(
            one.code,
            f"{one.what} {one.cost}",
            ", ".join(filter(None, (one.weight.value, one.about))),
            f"Fix: {one.fix}",
        )
        for one in checkup.complaints
    )
    lead = "" if wrong else "Nothing is wrong with it, as far as hotlap can see."
    how = "quickly " if checkup.quick else ""
    notes = (f"Measured {how}at {checkup.created}, in {duration(checkup.elapsed_s)}.", *checkup.notes)
    yield draw(Section(name="wrong", title="What is wrong with it", lead=lead, rows=wrong, notes=notes))


def _parts(checkup: Checkup) -> tuple[str, ...]:
    machine, torch = checkup.machine, checkup.torch
    kinds = [f"{machine.usable_cores:g} of {machine.num_cores} logical processors usable"]
    if machine.physical_cores is not None:
        kinds.append(f"{machine.physical_cores} cores")
    kinds.append(f"{size(machine.available_bytes)} of {size(machine.memory_bytes)} memory free")
    parts = ["; ".join(kinds), *(["GPUs: " + ", ".join(machine.gpus)] if machine.gpus else [])]
    if torch is not None:
        built = f"CUDA {torch.cuda}" if torch.cuda else f"ROCm {torch.hip}" if torch.hip else "no CUDA"
        parts.append(f"torch {torch.version} ({built}), {torch.num_threads} threads")
    return tuple(parts)


def _device(checkup: Checkup, device: str) -> str:
    number = device.removeprefix("cuda:")
    devices = checkup.torch.devices if checkup.torch else ()
    if number.isdigit() and int(number) < len(devices):
        return f"{device}: {devices[int(number)].name}"
    return {"cpu": "Processor"}.get(device, device)


def _row(figure: Figure) -> Row:
    low, mid, high = (quantity(one, figure.unit) for one in (figure.value.low, figure.value.mid, figure.value.high))
    threads = "" if figure.threads is None else f", threads: {figure.threads}"
    text = f"{mid} ({between(low, high)}), {percent(figure.spread)}{threads}"
    return Row(f"{_TITLES.get(figure.name, figure.name)} {figure.variant}".rstrip(), text)


def quantity(value: float, unit: Unit) -> str:
    """ "312 GFLOP/s", "10.4 GB/s", "2.3 us"."""
    if unit is Unit.SECOND:
        return duration(value)
    for factor, prefix in _PREFIXES:
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"
