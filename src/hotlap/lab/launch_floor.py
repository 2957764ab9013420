"""launch-floor (F4): what does a call cost before it computes anything, and which model lies below that?"""

from hotlap.lab import Doing, Settings, products
from hotlap.lab.products import Products, Shape
from hotlap.lab.result import Result

TAKES = ("gpu",)

# The question's two, a layer of its network and a square one, among squares.
SHAPES: tuple[Shape, ...] = (
    *((1, 1, 1), (16, 16, 1), (100, 3, 1), (64, 64, 1), (100, 100, 1)),
    *((side, side, 1) for side in (256, 512, 1024, 2048)),
)
QUICK_SHAPES: tuple[Shape, ...] = ((1, 1, 1), (100, 3, 1), (100, 100, 1), (2048, 2048, 1))


def run(settings: Settings, doing: Doing) -> Result:
    """Time it here, predict the GPU where there is none."""
    return tell(products.timed(QUICK_SHAPES if settings.quick else SHAPES, settings, doing))


def tell(found: Products) -> Result:
    """The numbers, and what they mean."""
    times, numbers = found.times, found.ahead(products.GPU)
    floors = ", ".join(f"{times[way][0]} in {way.split(',')[0]}" for way in products.ON_CPU)
    where = (
        "At no size that was tried is the GPU ahead of the fastest way of this CPU, by the intervals."
        if numbers is None
        else f"From a matrix of {numbers:,} numbers on, of the sizes tried, the GPU is ahead of the fastest way of "
        "this CPU, by the intervals. Below that a call costs the GPU its floor and the CPU the arithmetic alone, so a "
        "network of such layers is faster on the CPU, and the less there is around each call, the more so."
    )
    table = found.table(
        title="One product of a matrix and a vector",
        note="The question measured 0.25 us (100 x 3) and 56 us (100 x 100) on its CPU (Julia), 12.2 us and "
        "12.5 us on a Tesla K40c. On a GPU, calls follow each other without waiting in between.",
    )
    return Result(
        story=(
            f"On this machine a call that computes next to nothing (1 x 1) takes {floors}. The {found.gpu.name} takes "
            f"{times[products.GPU][0]} for it: that is its floor, however little there is to do.",
            where,
            "A training step is many such calls: `hotlap lab lorenz` takes them out of one, and says what that brings.",
        ),
        tables=(table,),
        notes=found.notes,
    )
