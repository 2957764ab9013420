"""Products of several sizes in NumPy, torch and the native core, timed; on a GPU timed or predicted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hotlap.experiment import statistics
from hotlap.lab import gpu_times, gpus
from hotlap.lab.children import ask
from hotlap.lab.result import Quantity, ahead_from, typical
from hotlap.lab.settings import Settings

NUMPY, TORCH, SMALL = "NumPy", "torch, CPU", "hotlap.small"
GPU, GRAPH = "GPU", "GPU, CUDA graph"
PAGEABLE, PINNED = "GPU, copies each time", "GPU, copies, pinned"
ON_CPU = (NUMPY, TORCH, SMALL)

Shape = tuple[int, int, int]
"""(rows, inner, columns): a matrix (rows, inner) times one (inner, columns), or a vector where columns is 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What one process is to time."""

    shapes: tuple[Shape, ...]
    rounds: int
    round_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Seconds of one product, in one process."""

    gpu: str | None
    """Name of the device that was used; None without one."""
    times: Mapping[str, tuple[tuple[float, ...], ...]]
    """Way -> shape -> one for each round."""
    threads: int = 1
    not_native: str = ""
    """Why there is no native core here; empty where it is in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """All ways at all shapes."""

    sizes: tuple[int, ...]
    """What tells the shapes apart, increasing."""
    times: Mapping[str, Sequence[Quantity]]
    """Way -> one for each shape."""
    gpu: gpus.Gpu
    notes: tuple[str, ...]

    def ahead(self, way: str) -> int | None:
        """The size from which on this way takes less time than the fastest of the CPU; None: at none."""
        here = [self.times[one] for one in ON_CPU if one in self.times]
        return ahead_from(
            self.sizes, [min(times, key=lambda one: one.value) for times in zip(*here, strict=True)], self.times[way]
        )


def answers(shapes: Sequence[Shape], settings: Settings, doing: Callable[[str], None]) -> list[Answer]:
    """The same question to several processes: the process is the unit of chance."""
    doing("multiplying matrices of several sizes")
    rounds, round_s = (5, 0.005) if settings.quick else (9, 0.03)
    question = Question(shapes=tuple(shapes), rounds=rounds, round_s=round_s)
    return [ask("calls", question, Answer) for _ in range(1 if settings.quick else statistics.FEWEST_SHOWN)]


def told(sizes: Sequence[int], shapes: Sequence[Shape], found: Sequence[Answer], settings: Settings) -> Sweep:
    """What was timed, and predictions where there is no GPU. `found`: one for each process."""
    first = found[0]
    gpu = gpus.chosen(settings, here=first.gpu)
    times = {
        way: [typical([one for answer in found for one in answer.times[way][k]]) for k in range(len(shapes))]
        for way in first.times
    }
    if gpu.predicted:
        times |= _predicted(shapes, gpu.name, host_s=min(one.value for one in times[TORCH]) + gpu_times.LAUNCH_S)
    notes = [*gpu.notes, f"float32; the CPU had {first.threads} threads; processes: {len(found)}."]
    if first.not_native and shapes[0][2] == 1:
        notes.append(f"There is no native core here: {first.not_native}")
    return Sweep(sizes=tuple(sizes), times=times, gpu=gpu, notes=tuple(notes))


def _predicted(shapes: Sequence[Shape], gpu: str, *, host_s: float) -> dict[str, list[Quantity]]:
    """`host_s`: what the smallest call takes here is dispatching it."""
    operators = [gpu_times.product(*shape) for shape in shapes]
    alone = [gpu_times.call(one, gpu, host_s=host_s) for one in operators]
    if shapes[0][2] == 1:
        return {GPU: alone, GRAPH: [gpu_times.replayed(one, gpu) for one in operators]}

    def with_copies(kind: str) -> list[Quantity]:
        # Two matrices there, one back.
        sizes = ([4.0 * rows * inner, 4.0 * inner * columns, 4.0 * rows * columns] for rows, inner, columns in shapes)
        return [
            gpu_times.together(one, gpu_times.copies(each, gpu, kind=kind))
            for one, each in zip(alone, sizes, strict=True)
        ]

    return {GPU: alone, PAGEABLE: with_copies("pageable"), PINNED: with_copies("pinned")}
