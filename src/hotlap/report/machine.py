"""Checkup -> text for a terminal."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hotlap.record import Checkup, Complaint, Figure, Unit, Weight
from hotlap.report.clean import clean_line
from hotlap.units import duration, percent, size

_STYLES = {Weight.BROKEN: "bold red", Weight.COSTLY: "yellow", Weight.MINOR: "dim"}
_TITLES = {
    "matmul": "matrix product",
    "read": "memory, read",
    "copy": "memory, copy",
    "triad": "memory, a = b + 2c",
    "operator": "small operator",
    "operator-autograd": "  with autograd, both ways",
    "launch": "floor of a call",
    "to-device": "copy to the device",
    "to-host": "copy to the host",
}
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_UNITS = {Unit.FLOP_PER_S: "FLOP/s", Unit.BYTE_PER_S: "B/s"}


def sections(checkup: Checkup) -> tuple[RenderableType, ...]:
    """In the order in which they are read."""
    return (headline(checkup), abilities(checkup), complaints(checkup.complaints), notes(checkup))


def headline(checkup: Checkup) -> RenderableType:
    """Which machine."""
    return Group(*(Text(clean_line(line), style="bold" if not number else "") for number, line in _machine(checkup)))


def _machine(checkup: Checkup) -> Iterator[tuple[int, str]]:
    machine, cores = checkup.machine, checkup.cores
    yield 0, machine.processor or "An unknown processor"
    kinds = [f"{machine.usable_cores:g} of {cores.logical} logical processors usable"]
    if cores.physical is not None:
        kinds.append(f"{cores.physical} cores" + (f", {cores.fast} of them fast" if _two_kinds(checkup) else ""))
    kinds.append(f"{size(machine.available_bytes)} of {size(machine.memory_bytes)} memory free")
    yield 1, "; ".join(kinds)
    if machine.gpus:
        yield 2, "GPUs: " + ", ".join(machine.gpus)
    torch = checkup.torch
    if torch is not None:
        built = f"CUDA {torch.cuda}" if torch.cuda else f"ROCm {torch.hip}" if torch.hip else "no CUDA"
        yield 3, f"torch {torch.version} ({built}), {torch.num_threads} threads"


def _two_kinds(checkup: Checkup) -> bool:
    return checkup.cores.fast is not None and checkup.cores.fast != checkup.cores.physical


def abilities(checkup: Checkup) -> RenderableType:
    """What it can do at best, a table for each device."""
    parts: list[RenderableType] = []
    for device in dict.fromkeys(figure.device for figure in checkup.figures):
        table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left", title_style="bold")
        table.title = f"\n{clean_line(_device(checkup, device))}"
        figures = [figure for figure in checkup.figures if figure.device == device]
        heads = ["", "", "median", "95% interval", "spread"]
        if any(figure.threads is not None for figure in figures):
            heads.append("threads")
        for name in heads:
            table.add_column(name, justify="left" if not name else "right", no_wrap=True)
        for figure in figures:
            table.add_row(*map(Text, _row(figure)[: len(heads)]))
        parts.append(table)
    return Group(*parts)


def _device(checkup: Checkup, device: str) -> str:
    number = device.removeprefix("cuda:")
    devices = checkup.torch.devices if checkup.torch else ()
    if number.isdigit() and int(number) < len(devices):
        return f"{device}: {devices[int(number)].name}"
    return {"cpu": "Processor"}.get(device, device)


def _row(figure: Figure) -> tuple[str, ...]:
    value = figure.value
    return (
        _TITLES.get(figure.name) or clean_line(figure.name),
        clean_line(figure.variant),
        quantity(value.mid, figure.unit),
        _between(quantity(value.low, figure.unit), quantity(value.high, figure.unit)),
        percent(figure.spread),
        "" if figure.threads is None else str(figure.threads),
    )


def _between(low: str, high: str) -> str:
    """ "10.2 to 10.4 GB/s"."""
    number, _, unit = low.partition(" ")
    return f"{number if high.endswith(f' {unit}') else low} to {high}"


def quantity(value: float, unit: Unit) -> str:
    """ "312 GFLOP/s", "10.4 GB/s", "2.3 us"."""
    if unit is Unit.SECOND:
        return duration(value)
    for factor, prefix in _PREFIXES:
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{_UNITS[unit]}"
    return f"{value:.3g} {_UNITS[unit]}"


def complaints(found: Sequence[Complaint]) -> RenderableType:
    """What is wrong, weightiest first; what it costs; how to fix it."""
    if not found:
        return Text("\nNothing is wrong with it, as far as hotlap can see.")
    parts: list[RenderableType] = [Text("\nWhat is wrong with it", style="bold")]
    for one in found:
        code = f"{one.code} ({one.about})" if one.about else one.code
        head = Text.assemble(
            (f"{one.weight.value}  ", _STYLES[one.weight]), (clean_line(code), "bold"), ": ", clean_line(one.what)
        )
        rest = Text(f"{clean_line(one.cost)}\nFix: {clean_line(one.fix)}")
        parts += [head, Padding(rest, (0, 0, 0, 4))]
    return Group(*parts)


def notes(checkup: Checkup) -> RenderableType:
    """When and how it was measured."""
    how = "quickly " if checkup.quick else ""
    lines = [f"Measured {how}at {checkup.created}, in {duration(checkup.elapsed_s)}.", *checkup.notes]
    return Text("\n" + "\n".join(map(clean_line, lines)))
