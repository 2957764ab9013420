"""transfer (F3): from which size on does a matrix product gain by a GPU, copies counted?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from hotlap.experiment import statistics
from hotlap.lab import gpu_times, gpus
from hotlap.lab.children import ask_again
from hotlap.lab.result import Cell, Quantity, Result, Table, ahead_from, as_fast, count, typical
from hotlap.lab.settings import Settings
from hotlap.units import size

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
    """Seconds of one product, in one process."""

    gpu: str | None
    """Name of the device that was used; None without one."""
    times: Mapping[str, tuple[tuple[float, ...], ...]]
    """Way -> side -> one for each round."""
    call_s: float
    """Of torch on the CPU, for the smallest product: what dispatching it takes."""
    threads: int = 1


def run(settings: Settings, doing: Callable[[str], None]) -> Result:
    """Time it here, predict the GPU where there is none."""
    doing("multiplying matrices of several sizes")
    sides = QUICK_SIDES if settings.quick else SIDES
    rounds, round_s = (5, 0.01) if settings.quick else (9, 0.05)
    processes = 1 if settings.quick else statistics.FEWEST_SHOWN
    question = Question(sides=sides, rounds=rounds, round_s=round_s)
    return tell(sides, ask_again("products", question, Answer, times=processes), settings)


def tell(sides: Sequence[int], answers: Sequence[Answer], settings: Settings) -> Result:
    """The numbers, and what they mean. `answers`: one for each process."""
    gpu = gpus.chosen(settings, here=answers[0].gpu)
    ways = [way for way in ALL if way in answers[0].times]
    found = {
        way: [typical([one for answer in answers for one in answer.times[way][k]]) for k in range(len(sides))]
        for way in ways
    }
    at = sides.index(SIDE)
    middles = {way: [median(answer.times[way][at]) for answer in answers] for way in ways}
    ratios = {way: as_fast(middles[NUMPY], middles[way]) for way in ways if way != NUMPY}
    if gpu.predicted:
        found |= _predicted(sides, gpu.name, answers[0].call_s)
    return Result(
        name="transfer",
        title=TITLE,
        story=tuple(_story(sides, found, gpu, at)),
        tables=(_founding(found, ratios, at), _sweep(sides, found)),
        notes=(*gpu.notes, f"float32; the CPU had {answers[0].threads} threads; processes: {len(answers)}."),
        quick=settings.quick,
        gpus=() if gpu.predicted else (gpu.name,),
    )


def _predicted(sides: Sequence[int], gpu: str, call_s: float) -> dict[str, list[Quantity]]:
    found: dict[str, list[Quantity]] = {GPU: [], PAGEABLE: [], PINNED: []}
    for side in sides:
        alone = gpu_times.call(gpu_times.product(side, side, side), gpu, host_s=call_s + gpu_times.LAUNCH_S)
        found[GPU].append(alone)
        for way, kind in ((PAGEABLE, "pageable"), (PINNED, "pinned")):
            # Two matrices there, one back.
            found[way].append(gpu_times.together(alone, gpu_times.copies([4.0 * side * side] * 3, gpu, kind=kind)))
    return found


def _founding(found: Mapping[str, Sequence[Quantity]], ratios: Mapping[str, Quantity | None], at: int) -> Table:
    return Table(
        title=f"One product of {SIDE} x {SIDE}",
        columns=("way", "time", "as fast as NumPy"),
        rows=tuple((way, times[at], ratios.get(way)) for way, times in found.items()),
        note="The article saw about 6x on its GPU, and nothing left of it with copies each time. A ratio is shown from "
        "three processes on, with its 95% interval.",
    )


def _sweep(sides: Sequence[int], found: Mapping[str, Sequence[Quantity]]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (count(side), size(12 * side * side), *(times[k] for times in found.values())) for k, side in enumerate(sides)
    ]
    return Table(title="One product, by size", columns=("side", "three matrices", *found), rows=tuple(rows))


def _story(sides: Sequence[int], found: Mapping[str, Sequence[Quantity]], gpu: gpus.Gpu, at: int) -> list[str]:
    numpy, torch, there, copied = (found[way][at] for way in (NUMPY, TORCH, GPU, PAGEABLE))
    first = (
        f"Here NumPy multiplies two {SIDE} x {SIDE} matrices in {numpy}, and torch on the CPU in {torch}. {gpu.title} "
        f"{gpu.takes} {there} with everything already there, but {copied} if both matrices travel there and the result "
        "travels back each time."
    )
    cpu = [min((found[way][k] for way in (NUMPY, TORCH)), key=lambda one: one.value) for k in range(len(sides))]
    said = []
    for way, words in (
        (GPU, "with the data there"),
        (PAGEABLE, "with copies each time"),
        (PINNED, "from pinned memory"),
    ):
        side = ahead_from(sides, cpu, found[way])
        said.append(f"{words} {'at none' if side is None else f'from {side} on'}")
    return [
        first,
        f"Of the sides tried, the GPU is ahead of this CPU, by the intervals: {'; '.join(said)}.",
    ]
