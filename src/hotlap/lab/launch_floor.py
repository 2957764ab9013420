"""launch-floor (F4): what does a call cost before it computes anything, and which model lies below that?"""

from collections.abc import Callable, Sequence

from hotlap.lab import sweep
from hotlap.lab.result import Cell, Result, Table
from hotlap.lab.settings import Settings

# The question's two, a layer of its network and a square one, among squares.
SHAPES = ((1, 1), (16, 16), (100, 3), (64, 64), (100, 100), (256, 256), (512, 512), (1024, 1024), (2048, 2048))
QUICK_SHAPES = ((1, 1), (100, 3), (100, 100), (2048, 2048))


def run(settings: Settings, doing: Callable[[str], None]) -> Result:
    """Time it here, predict the GPU where there is none."""
    shapes = QUICK_SHAPES if settings.quick else SHAPES
    return tell(shapes, sweep.answers(_products(shapes), settings, doing), settings)


def _products(shapes: Sequence[tuple[int, int]]) -> list[sweep.Shape]:
    return [(rows, columns, 1) for rows, columns in shapes]


def tell(shapes: Sequence[tuple[int, int]], answers: Sequence[sweep.Answer], settings: Settings) -> Result:
    """The numbers, and what they mean. `answers`: one for each process."""
    sizes = [rows * columns for rows, columns in shapes]
    found = sweep.told(sizes, _products(shapes), answers, settings)
    rows: list[tuple[Cell, ...]] = [
        (f"{rows:,} x {columns:,}", *(times[k] for times in found.times.values()))
        for k, (rows, columns) in enumerate(shapes)
    ]
    return Result(
        story=tuple(_story(found)),
        tables=(
            Table(
                title="One product of a matrix and a vector",
                columns=("matrix", *found.times),
                rows=tuple(rows),
                note="The question measured 0.25 us (100 x 3) and 56 us (100 x 100) on its CPU (Julia), 12.2 us and "
                "12.5 us on a Tesla K40c. On a GPU, calls follow each other without waiting in between.",
            ),
        ),
        notes=found.notes,
        gpus=found.gpu.here,
    )


def _story(found: sweep.Sweep) -> list[str]:
    gpu, times = found.gpu, found.times
    floors = ", ".join(f"{times[way][0]} in {way.split(',')[0]}" for way in sweep.ON_CPU if way in times)
    size = found.ahead(sweep.GPU)
    where = (
        "At no size that was tried is the GPU ahead of the fastest way of this CPU, by the intervals."
        if size is None
        else f"From a matrix of {size:,} numbers on, of the sizes tried, the GPU is ahead of the fastest way of this "
        "CPU, by the intervals. Below that a call costs the GPU its floor and the CPU the arithmetic alone, so a "
        "network of such layers is faster on the CPU, and the less there is around each call, the more so."
    )
    return [
        f"On this machine a call that computes next to nothing (1 x 1) takes {floors}. {gpu.title} {gpu.takes} "
        f"{times[sweep.GPU][0]} for it, and {times[sweep.GRAPH][0]} inside a CUDA graph, where nobody has to ask for "
        "each call: that is its floor, however little there is to do.",
        where,
        "A training step is many such calls: `hotlap lab lorenz` takes them out of one, and says what that brings.",
    ]
