"""Products of several sizes in NumPy and torch, timed; on a GPU timed or predicted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hotlap.experiment import statistics
from hotlap.lab import Doing, Settings, gpus
from hotlap.lab.result import Cell, Quantity, Table, ahead_from
from hotlap.machine.in_child import measured
from hotlap.predict import Kind, Operator, Workload, forecast
from hotlap.predict.workload import LAUNCH_S
from hotlap.record import Phase

NUMPY, TORCH = "NumPy", "torch, CPU"
GPU, COPIES = "GPU", "GPU, copies each time"
ON_CPU = (NUMPY, TORCH)

Shape = tuple[int, int, int]
"""(rows, inner, columns): a matrix (rows, inner) times one (inner, columns), or a vector where columns is 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Seconds of one product, in one process."""

    gpu: str | None
    """Name of the device that was used; None without one."""
    times: Mapping[str, tuple[tuple[float, ...], ...]]
    """Way -> shape -> one for each round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Products:
    """All ways at all shapes."""

    shapes: tuple[Shape, ...]
    """Increasing."""
    times: Mapping[str, Sequence[Quantity]]
    """Way -> one for each shape."""
    gpu: gpus.Gpu
    notes: tuple[str, ...]

    def ahead(self, way: str) -> int | None:
        """Numbers in the matrix from which on this way takes less time than the fastest of the CPU; None: at none."""
        here = zip(*(self.times[one] for one in ON_CPU), strict=True)
        fastest = [min(times, key=lambda one: one.value) for times in here]
        return ahead_from([rows * inner for rows, inner, _ in self.shapes], fastest, self.times[way])

    def table(self, *, title: str, note: str) -> Table:
        """One row a matrix."""
        rows: list[tuple[Cell, ...]] = [
            (f"{rows:,} x {inner:,}", *(times[k] for times in self.times.values()))
            for k, (rows, inner, _) in enumerate(self.shapes)
        ]
        return Table(title=title, columns=("matrix", *self.times), rows=tuple(rows), note=note)


def timed(shapes: Sequence[Shape], settings: Settings, doing: Doing) -> Products:
    """The same question to several processes: the process is the unit of chance."""
    doing("multiplying matrices of several sizes")
    words = ("quick" if settings.quick else "thorough", *(",".join(map(str, shape)) for shape in shapes))
    number = 1 if settings.quick else statistics.FEWEST_SHOWN
    answers = [measured("hotlap.lab.scripts.products", Answer, *words) for _ in range(number)]
    return told(shapes, answers, settings)


def told(shapes: Sequence[Shape], found: Sequence[Answer], settings: Settings) -> Products:
    """What was timed, and predictions where there is no GPU. `found`: one for each process."""
    first = found[0]
    gpu = gpus.chosen(settings, (first.gpu,) if first.gpu else ())
    times = {
        way: [Quantity.median([one for answer in found for one in answer.times[way][k]]) for k in range(len(shapes))]
        for way in first.times
    }
    if gpu.predicted:
        # What the smallest call takes here is dispatching it.
        host_s = min(one.value for one in times[TORCH]) + LAUNCH_S
        times[GPU] = [predicted(shape, gpu.name, host_s=host_s) for shape in shapes]
        if shapes[0][2] > 1:
            times[COPIES] = [predicted(shape, gpu.name, host_s=host_s, copied=True) for shape in shapes]
    notes = (*gpu.notes, f"float32; processes: {len(found)}.")
    return Products(shapes=tuple(shapes), times=times, gpu=gpu, notes=notes)


def predicted(shape: Shape, gpu: str, *, host_s: float, copied: bool = False) -> Quantity:
    """One product in float32 in a long row of them.

    Arguments:
        host_s: what dispatching one call takes on this machine's CPU.
        copied: both operands travel there each time and the result back: three more calls, and the bytes.
    """
    rows, inner, columns = shape
    moved = 4.0 * (rows * inner + inner * columns + rows * columns)
    product = Operator(
        kind=Kind.MATMUL,
        name="aten::mm" if columns > 1 else "aten::mv",
        stage=Phase.FORWARD,
        flop=2.0 * rows * inner * columns,
        moved_bytes=moved,
    )
    copies = (Operator(kind=Kind.VECTOR, name="aten::copy_", stage=Phase.FORWARD, count=3),) if copied else ()
    work = Workload(
        operators=(product, *copies),
        matmul_tf32=False,
        host_s=host_s,
        batch_bytes=moved if copied else None,
    )
    return Quantity.of(forecast(work, target=gpu).step_s, predicted=True)
