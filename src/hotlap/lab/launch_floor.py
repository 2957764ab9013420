"""launch-floor (F4): what does a call cost before it computes anything, and which model lies below that?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hotlap.lab import gpu_times, gpus
from hotlap.lab.children import ask
from hotlap.lab.result import Cell, Curve, Curves, Quantity, Result, Table, Unit, count, crossing
from hotlap.lab.settings import Settings
from hotlap.lab.words import PREDICTED, quantity, times_as
from hotlap.machine.figures import median_interval
from hotlap.predict import Workload, forecast
from hotlap.record import decode
from hotlap.units import duration

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
    """Seconds of one call, of one training step."""

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
    rounds, round_s = (5, 0.005) if settings.quick else (11, 0.03)
    shapes = (*FOUNDING, *((side, side) for side in sides))
    answer = ask("calls", Question(shapes=shapes, rounds=rounds, round_s=round_s), Answer)
    return tell(sides, answer, settings)


def tell(sides: Sequence[int], answer: Answer, settings: Settings) -> Result:
    """The numbers, and what they mean."""
    gpu = gpus.chosen(settings, here=answer.gpu)
    found = {
        way: [Quantity.of(median_interval(times), Unit.SECOND) for times in answer.times[way]]
        for way in ALL
        if way in answer.times
    }
    steps = {way: Quantity.of(median_interval(times), Unit.SECOND) for way, times in answer.steps.items()}
    if gpu.predicted:
        shapes = (*FOUNDING, *((side, side) for side in sides))
        found |= _predicted(shapes, gpu.name, host_s=found[TORCH][0].value + gpu_times.LAUNCH_S)
        steps[GPU] = _step_there(answer, gpu.name)
    square = {way: times[len(FOUNDING) :] for way, times in found.items()}
    notes = (
        *gpu.notes,
        f"float32; the CPU had {answer.threads} threads. On a GPU, calls follow each other without waiting in between.",
        *((f"There is no native core here: {answer.not_native}",) if answer.not_native else ()),
    )
    return Result(
        name="launch-floor",
        title=TITLE,
        story=tuple(_story(sides, found, square, steps, gpu)),
        tables=(_founding(found), _sweep(sides, square), _steps(steps)),
        pictures=(_picture(sides, square),),
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


def _step_there(answer: Answer, gpu: str) -> Quantity:
    """The network's step as torch would run it there; its host dispatches as this one does."""
    work = decode(answer.workload.encode(), Workload).validated()
    prediction = forecast(work, target=gpu)
    return Quantity.of(prediction.step_s, Unit.SECOND, predicted=True)


def _founding(found: Mapping[str, Sequence[Quantity]]) -> Table:
    rows: list[tuple[Cell, ...]] = [(way, *(times[k] for k in range(len(FOUNDING)))) for way, times in found.items()]
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
        rows=tuple((count(side), *(_bare(times[k]) for times in square.values())) for k, side in enumerate(sides)),
    )


def _bare(one: Quantity) -> Quantity:
    return one if one.predicted else Quantity(value=one.value, unit=one.unit)


def _steps(steps: Mapping[str, Quantity]) -> Table:
    base = steps[TORCH_STEP].value
    return Table(
        title="A whole training step of the question's network (3-100-3, one sample, Adam)",
        columns=("way", "step", "beside torch on the CPU"),
        rows=tuple((way, one, one.into(base)) for way, one in steps.items()),
    )


def _picture(sides: Sequence[int], square: Mapping[str, Sequence[Quantity]]) -> Curves:
    return Curves(
        title="The floor, and where work begins to matter",
        x_label="side of the matrix",
        x_unit=Unit.COUNT,
        y_label="time of one call",
        y_unit=Unit.SECOND,
        curves=tuple(
            Curve(
                name=way,
                x=tuple(map(float, sides)),
                y=tuple(one.value for one in times),
                low=tuple(one.low for one in times),
                high=tuple(one.high for one in times),
                predicted=times[0].predicted,
            )
            for way, times in square.items()
        ),
        log_x=True,
        log_y=True,
    )


def _story(
    sides: Sequence[int],
    found: Mapping[str, Sequence[Quantity]],
    square: Mapping[str, Sequence[Quantity]],
    steps: Mapping[str, Quantity],
    gpu: gpus.Gpu,
) -> list[str]:
    here = [way for way in (NUMPY, TORCH, SMALL) if way in square]
    floors = ", ".join(f"{duration(square[way][0].value)} in {way.split(',')[0]}" for way in here)
    verb = "would take" if gpu.predicted else "takes"
    first = (
        f"On this machine a call that computes next to nothing ({sides[0]} x {sides[0]}) takes {floors}. {gpu.title} "
        f"{verb} {quantity(square[GPU][0])} for it, and {quantity(square[GRAPH][0])} inside a CUDA graph, where "
        "nobody has to ask for each call: that is its floor, however little there is to do."
    )
    return [first, _where(sides, square, here), _what_for(found, steps)]


def _where(sides: Sequence[int], square: Mapping[str, Sequence[Quantity]], here: Sequence[str]) -> str:
    cpu = [min(square[way][k].value for way in here) for k in range(len(sides))]
    at = crossing(list(map(float, sides)), cpu, [one.value for one in square[GPU]])
    mark = PREDICTED if square[GPU][0].predicted else ""
    if at is None:
        return f"Up to {sides[-1]} x {sides[-1]} the GPU's calls stay slower than the fastest of this CPU's."
    return (
        f"From a side of about {mark}{at:.0f} on the GPU overtakes the fastest way of this CPU. Below that a call "
        "costs the GPU its floor and the CPU the arithmetic alone, so a network of such layers is faster on the CPU, "
        "and the less there is around each call, the more so."
    )


def _what_for(found: Mapping[str, Sequence[Quantity]], steps: Mapping[str, Quantity]) -> str:
    torch_s = steps[TORCH_STEP].value
    sentence = (
        f"A training step is many such calls: torch needs {duration(torch_s)} for one of the question's network, "
        f"whose two layers take {duration(found[TORCH][0].value)} each if called alone."
    )
    if SMALL_STEP in steps:
        ratio = torch_s / steps[SMALL_STEP].value
        sentence += (
            f" hotlap.small makes the whole step in one call: {duration(steps[SMALL_STEP].value)}, {times_as(ratio)}."
        )
    if GPU in steps:
        sentence += f" On the GPU the same step takes {quantity(steps[GPU])}."
    return sentence
