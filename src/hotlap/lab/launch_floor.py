"""launch-floor (F4): what does a call cost before it computes anything, and which model lies below that?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from hotlap.experiment import statistics
from hotlap.lab import gpu_times, gpus
from hotlap.lab.children import ask_again
from hotlap.lab.result import Cell, Quantity, Result, Table, ahead_from, as_fast, count, typical
from hotlap.lab.settings import Settings
from hotlap.predict import Workload, forecast
from hotlap.record import decode

TITLE = "A call has a floor: below it a faster device changes nothing"
SIDES = (1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096)
QUICK_SIDES = (1, 16, 256, 2048)
# The question's two: what a layer of its network is, and a square one.
FOUNDING = ((100, 3), (100, 100))

NUMPY, TORCH, SMALL = "NumPy", "torch, CPU", "hotlap.small"
GPU, GRAPH = "GPU", "GPU, CUDA graph"
ALL = (NUMPY, TORCH, SMALL, GPU, GRAPH)
# The step of the network itself.
TORCH_STEP, SMALL_STEP = "torch, CPU", "hotlap.small"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Shapes (rows, columns) of the matrices to be multiplied with a vector."""

    shapes: tuple[tuple[int, int], ...]
    rounds: int
    round_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Seconds of one call, of one training step, in one process."""

    gpu: str | None
    times: Mapping[str, tuple[tuple[float, ...], ...]]
    """Way -> shape -> one for each round."""
    steps: Mapping[str, tuple[float, ...]]
    """Way -> one for each round: a training step of 3-100-3 with one sample."""
    workload: str
    """Of that step, as JSON."""
    threads: int = 1
    not_native: str = ""
    """Why there is no native core here; empty where it is in use."""


def run(settings: Settings, doing: Callable[[str], None]) -> Result:
    """Time it here, predict the GPU where there is none."""
    doing("calling products of a matrix and a vector, of several sizes")
    sides = QUICK_SIDES if settings.quick else SIDES
    rounds, round_s = (5, 0.005) if settings.quick else (11, 0.02)
    processes = 1 if settings.quick else statistics.FEWEST_SHOWN
    question = Question(shapes=_shapes(sides), rounds=rounds, round_s=round_s)
    return tell(sides, ask_again("calls", question, Answer, times=processes), settings)


def _shapes(sides: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return (*FOUNDING, *((side, side) for side in sides))


def tell(sides: Sequence[int], answers: Sequence[Answer], settings: Settings) -> Result:
    """The numbers, and what they mean. `answers`: one for each process."""
    first = answers[0]
    gpu = gpus.chosen(settings, here=first.gpu)
    found = {
        way: [typical([one for answer in answers for one in answer.times[way][k]]) for k in range(len(times))]
        for way, times in sorted(first.times.items(), key=lambda item: ALL.index(item[0]))
    }
    steps = {way: typical([one for answer in answers for one in answer.steps[way]]) for way in first.steps}
    middles = {way: [median(answer.steps[way]) for answer in answers] for way in first.steps}
    ratios = {way: as_fast(middles[TORCH_STEP], middles[way]) for way in steps if way != TORCH_STEP}
    if gpu.predicted:
        found |= _predicted(_shapes(sides), gpu.name, host_s=found[TORCH][0].value + gpu_times.LAUNCH_S)
        # The network's step as torch would run it there; its host dispatches as this one does.
        work = decode(first.workload.encode(), Workload).validated()
        steps[GPU] = Quantity.of(forecast(work, target=gpu.name).step_s, predicted=True)
    square = {way: times[len(FOUNDING) :] for way, times in found.items()}
    notes = (
        *gpu.notes,
        f"float32; the CPU had {first.threads} threads; processes: {len(answers)}. On a GPU, calls follow each other "
        "without waiting in between.",
        *((f"There is no native core here: {first.not_native}",) if first.not_native else ()),
    )
    return Result(
        name="launch-floor",
        title=TITLE,
        story=tuple(_story(sides, found, square, steps, gpu)),
        tables=(_founding(found), _sweep(sides, square), _steps(steps, ratios)),
        notes=notes,
        quick=settings.quick,
        gpus=() if gpu.predicted else (gpu.name,),
    )


def _predicted(shapes: Sequence[tuple[int, int]], gpu: str, *, host_s: float) -> dict[str, list[Quantity]]:
    operators = [gpu_times.product(rows, columns, 1) for rows, columns in shapes]
    return {
        GPU: [gpu_times.call(one, gpu, host_s=host_s) for one in operators],
        GRAPH: [gpu_times.replayed(one, gpu) for one in operators],
    }


def _founding(found: Mapping[str, Sequence[Quantity]]) -> Table:
    rows: list[tuple[Cell, ...]] = [(way, *times[: len(FOUNDING)]) for way, times in found.items()]
    return Table(
        title="One product of a matrix and a vector",
        columns=("way", *(f"{rows} x {columns}" for rows, columns in FOUNDING)),
        rows=tuple(rows),
        note="The question measured 0.25 us and 56 us on its CPU (Julia), 12.2 us and 12.5 us on a Tesla K40c.",
    )


def _sweep(sides: Sequence[int], square: Mapping[str, Sequence[Quantity]]) -> Table:
    return Table(
        title="By size: a square matrix and a vector",
        columns=("side", *square),
        rows=tuple((count(side), *(times[k] for times in square.values())) for k, side in enumerate(sides)),
    )


def _steps(steps: Mapping[str, Quantity], ratios: Mapping[str, Quantity | None]) -> Table:
    return Table(
        title="A whole training step of the question's network (3-100-3, one sample, Adam)",
        columns=("way", "step", "as fast as torch on the CPU"),
        rows=tuple((way, one, ratios.get(way)) for way, one in steps.items()),
        note="A ratio is shown from three processes on, with its 95% interval.",
    )


def _story(
    sides: Sequence[int],
    found: Mapping[str, Sequence[Quantity]],
    square: Mapping[str, Sequence[Quantity]],
    steps: Mapping[str, Quantity],
    gpu: gpus.Gpu,
) -> list[str]:
    here = [way for way in (NUMPY, TORCH, SMALL) if way in square]
    floors = ", ".join(f"{square[way][0]} in {way.split(',')[0]}" for way in here)
    cpu = [min((square[way][k] for way in here), key=lambda one: one.value) for k in range(len(sides))]
    side = ahead_from(sides, cpu, square[GPU])
    where = (
        f"Up to {sides[-1]} x {sides[-1]} the GPU is not ahead of the fastest way of this CPU, by the intervals."
        if side is None
        else f"From {side} x {side} on, of the sizes tried, the GPU is ahead of the fastest way of this CPU, by the "
        "intervals. Below that a call costs the GPU its floor and the CPU the arithmetic alone, so a network of such "
        "layers is faster on the CPU, and the less there is around each call, the more so."
    )
    step = (
        f"A training step is many such calls: torch needs {steps[TORCH_STEP]} for one of the question's network, "
        f"whose two layers take {found[TORCH][0]} each if called alone."
    )
    if SMALL_STEP in steps:
        step += f" hotlap.small makes the whole step in one call: {steps[SMALL_STEP]}."
    if GPU in steps:
        step += f" On the GPU the same step {gpu.takes} {steps[GPU]}."
    return [
        f"On this machine a call that computes next to nothing ({sides[0]} x {sides[0]}) takes {floors}. {gpu.title} "
        f"{gpu.takes} {square[GPU][0]} for it, and {square[GRAPH][0]} inside a CUDA graph, where nobody has to ask for "
        "each call: that is its floor, however little there is to do.",
        where,
        step,
    ]
