"""transfer (F3): from which size on does a matrix product gain by a GPU, copies counted?"""

import math

from hotlap.lab import Doing, Settings, products
from hotlap.lab.products import Products, Shape
from hotlap.lab.result import Result

TAKES = ("gpu",)

# The article multiplies 200 x 200.
SIDE = 200
SHAPES: tuple[Shape, ...] = tuple((side, side, side) for side in (8, 32, 64, 128, SIDE, 256, 512, 1024, 2048))
QUICK_SHAPES = tuple(shape for shape in SHAPES if shape[0] in (8, SIDE, 512))


def run(settings: Settings, doing: Doing) -> Result:
    """Time it here, predict the GPU where there is none."""
    return tell(products.timed(QUICK_SHAPES if settings.quick else SHAPES, settings, doing))


def tell(found: Products) -> Result:
    """The numbers, and what they mean."""
    at = found.shapes.index((SIDE, SIDE, SIDE))
    numpy, torch, there, copied = (
        found.times[way][at] for way in (products.NUMPY, products.TORCH, products.GPU, products.COPIES)
    )
    ahead = {way: found.ahead(way) for way in (products.GPU, products.COPIES)}
    sides = ["at none" if numbers is None else f"from {math.isqrt(numbers)} on" for numbers in ahead.values()]
    return Result(
        story=(
            f"Here NumPy multiplies two {SIDE} x {SIDE} matrices in {numpy}, and torch on the CPU in {torch}. "
            f"The {found.gpu.name} takes {there} with everything already there, but {copied} if both matrices "
            "travel there and the result travels back each time.",
            "Of the sides tried, the GPU is ahead of this CPU, by the intervals: "
            f"with the data there {sides[0]}; with copies each time {sides[1]}.",
        ),
        tables=(
            found.table(
                title="One product of two square matrices",
                note=f"The article saw about 6x on its GPU at {SIDE}, and nothing left of it with copies each time.",
            ),
        ),
        notes=found.notes,
    )
