"""transfer (F3): from which size on does a matrix product gain by a GPU, copies counted?"""

from collections.abc import Callable, Sequence

from hotlap.lab import sweep
from hotlap.lab.result import Cell, Result, Table, count
from hotlap.lab.settings import Settings
from hotlap.units import size

# The article multiplies 200 x 200.
SIDE = 200
SIDES = (8, 32, 64, 128, SIDE, 256, 512, 1024, 2048)
QUICK_SIDES = (8, SIDE, 512)


def run(settings: Settings, doing: Callable[[str], None]) -> Result:
    """Time it here, predict the GPU where there is none."""
    sides = QUICK_SIDES if settings.quick else SIDES
    return tell(sides, sweep.answers(_shapes(sides), settings, doing), settings)


def _shapes(sides: Sequence[int]) -> list[sweep.Shape]:
    return [(side, side, side) for side in sides]


def tell(sides: Sequence[int], answers: Sequence[sweep.Answer], settings: Settings) -> Result:
    """The numbers, and what they mean. `answers`: one for each process."""
    found = sweep.told(sides, _shapes(sides), answers, settings)
    rows: list[tuple[Cell, ...]] = [
        (count(side), size(12 * side * side), *(times[k] for times in found.times.values()))
        for k, side in enumerate(sides)
    ]
    return Result(
        story=tuple(_story(found)),
        tables=(
            Table(
                title="One product of two square matrices",
                columns=("side", "three matrices", *found.times),
                rows=tuple(rows),
                note=f"The article saw about 6x on its GPU at {SIDE}, and nothing left of it with copies each time.",
            ),
        ),
        notes=found.notes,
        gpus=found.gpu.here,
    )


def _story(found: sweep.Sweep) -> list[str]:
    at = found.sizes.index(SIDE)
    ways = (sweep.NUMPY, sweep.TORCH, sweep.GPU, sweep.PAGEABLE)
    numpy, torch, there, copied = (found.times[way][at] for way in ways)
    said = []
    for way, words in (
        (sweep.GPU, "with the data there"),
        (sweep.PAGEABLE, "with copies each time"),
        (sweep.PINNED, "from pinned memory"),
    ):
        side = found.ahead(way)
        said.append(f"{words} {'at none' if side is None else f'from {side} on'}")
    return [
        f"Here NumPy multiplies two {SIDE} x {SIDE} matrices in {numpy}, and torch on the CPU in {torch}. "
        f"{found.gpu.title} {found.gpu.takes} {there} with everything already there, but {copied} if both matrices "
        "travel there and the result travels back each time.",
        f"Of the sides tried, the GPU is ahead of this CPU, by the intervals: {'; '.join(said)}.",
    ]
