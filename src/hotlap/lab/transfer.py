"""transfer (F3): from which size on does a matrix product gain by a GPU, copies counted?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hotlap.lab import gpu_times, gpus
from hotlap.lab.children import ask
from hotlap.lab.result import Cell, Curve, Curves, Quantity, Result, Table, Unit, count, crossing
from hotlap.lab.settings import Settings
from hotlap.lab.words import quantity, times_as
from hotlap.machine.figures import median_interval
from hotlap.units import duration, size

TITLE = "A GPU is like a web service: requests are cheap, sending the data is not"
# The article multiplies 200 x 200.
SIDE = 200
SIDES = (16, 32, 64, 128, 200, 256, 512, 1024, 2048)
QUICK_SIDES = (32, 200, 512)

NUMPY, TORCH = "NumPy", "torch, CPU"
GPU, PAGEABLE, PINNED = "GPU", "GPU, copies each time", "GPU, copies, pinned"
ALL = (NUMPY, TORCH, GPU, PAGEABLE, PINNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the child is to time."""

    sides: tuple[int, ...]
    rounds: int
    round_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Seconds of one product."""

    gpu: str | None
    """Name of the device that was used; None without one."""
    times: Mapping[str, tuple[tuple[float, ...], ...]]
    """Way -> side -> one for each round."""
    call_s: float
    """Of torch on the CPU, for the smallest product: what dispatching it takes."""
    threads: int = 1
    notes: tuple[str, ...] = field(default=())


def run(settings: Settings, doing: Callable[[str], None]) -> Result:
    """Time it here, predict the GPU where there is none."""
    doing("multiplying matrices of several sizes")
    sides = QUICK_SIDES if settings.quick else SIDES
    rounds, round_s = (5, 0.01) if settings.quick else (9, 0.05)
    answer = ask("products", Question(sides=sides, rounds=rounds, round_s=round_s), Answer)
    return tell(sides, answer, settings)


def tell(sides: Sequence[int], answer: Answer, settings: Settings) -> Result:
    """The numbers, and what they mean."""
    gpu = gpus.chosen(settings, here=answer.gpu)
    found = {way: [_measured(times) for times in answer.times[way]] for way in ALL if way in answer.times}
    if gpu.predicted:
        found |= _predicted(sides, gpu.name, answer)
    at = sides.index(SIDE)
    return Result(
        name="transfer",
        title=TITLE,
        story=tuple(_story(sides, found, gpu, at)),
        tables=(_founding(found, at), _sweep(sides, found)),
        pictures=(_picture(sides, found),),
        notes=(*gpu.notes, f"float32; the CPU had {answer.threads} threads.", *answer.notes),
        quick=settings.quick,
        gpus=() if gpu.predicted else (gpu.name,),
    )


def _measured(times_s: Sequence[float]) -> Quantity:
    return Quantity.of(median_interval(times_s), Unit.SECOND)


def _predicted(sides: Sequence[int], gpu: str, answer: Answer) -> dict[str, list[Quantity]]:
    found: dict[str, list[Quantity]] = {GPU: [], PAGEABLE: [], PINNED: []}
    for side in sides:
        alone = gpu_times.call(gpu_times.product(side, side, side), gpu, host_s=answer.call_s + gpu_times.LAUNCH_S)
        found[GPU].append(alone)
        for way, kind in ((PAGEABLE, "pageable"), (PINNED, "pinned")):
            # Two matrices there, one back.
            found[way].append(gpu_times.together((alone, gpu_times.copies([4.0 * side * side] * 3, gpu, kind=kind))))
    return found


def _founding(found: Mapping[str, Sequence[Quantity]], at: int) -> Table:
    base = found[NUMPY][at].value
    rows: list[tuple[Cell, ...]] = [(way, times[at], times[at].into(base)) for way, times in found.items()]
    return Table(
        title=f"One product of {SIDE} x {SIDE}",
        columns=("way", "time", "beside NumPy"),
        rows=tuple(rows),
        note="The article saw about 6x on its GPU, and nothing left of it with copies each time.",
    )


def _sweep(sides: Sequence[int], found: Mapping[str, Sequence[Quantity]]) -> Table:
    return Table(
        title="One product, by size",
        columns=("side", "three matrices", *found),
        rows=tuple(
            (count(side), size(12 * side * side), *(_bare(times[k]) for times in found.values()))
            for k, side in enumerate(sides)
        ),
    )


def _bare(one: Quantity) -> Quantity:
    """What was measured without its interval: the sweep has many columns, and the JSON of the first table has it."""
    return one if one.predicted else Quantity(value=one.value, unit=one.unit)


def _picture(sides: Sequence[int], found: Mapping[str, Sequence[Quantity]]) -> Curves:
    x = tuple(map(float, sides))
    curves = tuple(
        Curve(
            name=way,
            x=x,
            y=tuple(one.value for one in times),
            low=tuple(one.low for one in times),
            high=tuple(one.high for one in times),
            predicted=times[0].predicted,
        )
        for way, times in found.items()
    )
    return Curves(
        title="Where each of them wins",
        x_label="side of the matrices",
        x_unit=Unit.COUNT,
        y_label="time of one product",
        y_unit=Unit.SECOND,
        curves=curves,
        log_x=True,
        log_y=True,
    )


def _story(sides: Sequence[int], found: Mapping[str, Sequence[Quantity]], gpu: "gpus.Gpu", at: int) -> list[str]:
    numpy = found[NUMPY][at].value
    verb = "would take" if gpu.predicted else "took"
    first = (
        f"Here NumPy multiplies two {SIDE} x {SIDE} matrices in {quantity(found[NUMPY][at])}, and torch on the CPU in "
        f"{quantity(found[TORCH][at])}. {gpu.title} {verb} {quantity(found[GPU][at])} with everything already there "
        f"({times_as(numpy / found[GPU][at].value)} as NumPy), but {quantity(found[PAGEABLE][at])} if both matrices "
        f"travel there and the result travels back each time ({times_as(numpy / found[PAGEABLE][at].value)})."
    )
    cpu = [min(a.value, b.value) for a, b in zip(found[NUMPY], found[TORCH], strict=True)]
    lines = [
        _crosses("With the data there, the GPU", sides, cpu, found[GPU]),
        _crosses("With copies each time, it", sides, cpu, found[PAGEABLE]),
        _crosses("From pinned memory, it", sides, cpu, found[PINNED]),
    ]
    alone, moved = found[GPU][at].value, found[PAGEABLE][at].value
    why = (
        f"Of the {duration(moved)} with copies, {duration(moved - alone)} are the three trips of "
        f"{size(4 * SIDE * SIDE)} each. The work of a product grows with the third power of its side, what travels "
        "only with the second: so a product that is large enough is worth the trip, a small one is not. In a training "
        "the weights and the data belong on the device once; what should travel in each step is the batch, and "
        "nothing back."
    )
    return [first, " ".join(lines), why]


def _crosses(who: str, sides: Sequence[int], cpu: Sequence[float], times: Sequence[Quantity]) -> str:
    """Where it overtakes the faster of the CPU's two ways; with what the interval leaves open."""

    def at(end: Callable[[Quantity], float]) -> float | None:
        return crossing([float(side) for side in sides], cpu, [end(one) for one in times])

    middle = at(lambda one: one.value)
    if middle is None:
        return f"{who} does not overtake this CPU up to {sides[-1]} x {sides[-1]}."
    if middle <= sides[0]:
        return f"{who} is ahead of this CPU at every size tried, from {sides[0]} x {sides[0]} on."
    interval = ""
    if times[0].predicted:
        first = at(lambda one: one.low if one.low is not None else one.value)
        last = at(lambda one: one.high if one.high is not None else one.value)
        until = f"{last:.0f}" if last is not None else f"more than {sides[-1]}"
        interval = f" (between {first or sides[0]:.0f} and {until}, by the intervals)"
    return f"{who} is ahead of this CPU from a side of about {middle:.0f} on{interval}."
