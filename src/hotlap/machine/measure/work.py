"""What each device is measured by: matrix products, memory bandwidth, and what an operator costs by itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch

from hotlap.machine import figures
from hotlap.machine.measure.timing import Pace, Work, once_s, times
from hotlap.record import Figure, Unit

# Sides of products are doubled from here until one takes long enough that starting it does not matter; where a dtype is
# emulated (float16 on most processors, a hundred times slower) that is at once.
_LEAST_SIDE, _LONG_ENOUGH_S = 128, 0.01
# An operator on so few elements is all overhead.
_FEW, _CHAIN = 8, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Where work is done."""

    name: str
    """As torch calls it: "cpu", "cuda:0"."""
    free_bytes: int
    most_side: int
    """Of a product."""
    threads: int | None = None


def products(device: Device, pace: Pace, dtypes: tuple[torch.dtype, ...]) -> Iterator[Figure]:
    """Operations per second of square products, one figure for each dtype."""
    for dtype in dtypes:
        yield product(device, pace, dtype, str(dtype).removeprefix("torch."))


def product(device: Device, pace: Pace, dtype: torch.dtype, variant: str) -> Figure:
    """The product of one dtype, as torch is set."""
    side = _LEAST_SIDE
    work = _multiply(device, dtype, side)
    # Two factors and what comes out.
    while side < device.most_side and 3 * (2 * side) ** 2 * dtype.itemsize < device.free_bytes // 4:
        once_s(work)
        if once_s(work) > _LONG_ENOUGH_S:
            break
        side *= 2
        work = _multiply(device, dtype, side)
    return figures.rate(
        "matmul",
        2.0 * side**3,
        times(work, pace),
        unit=Unit.FLOP_PER_S,
        device=device.name,
        variant=variant,
        threads=device.threads,
    )


def _multiply(device: Device, dtype: torch.dtype, side: int) -> Work:
    a, b = (torch.randn(side, side, device=device.name).to(dtype) for _ in range(2))
    return partial(torch.mm, a, b, out=torch.empty_like(a))


def bandwidth(device: Device, pace: Pace) -> Iterator[Figure]:
    """Bytes that the program moves, as STREAM counts them; a cache line read before it is written is not counted."""
    count = min(pace.array_bytes, device.free_bytes // 16) // 4
    a, b, c = (torch.full((count,), float(value), device=device.name) for value in (1, 2, 3))
    works: tuple[tuple[str, int, Work], ...] = (
        ("read", 1, partial(torch.sum, a)),
        ("copy", 2, partial(a.copy_, b)),
        ("triad", 3, partial(torch.add, b, c, alpha=2.0, out=a)),
    )
    for name, arrays, work in works:
        yield figures.rate(
            name,
            4.0 * arrays * count,
            times(work, pace),
            unit=Unit.BYTE_PER_S,
            device=device.name,
            threads=device.threads,
        )


def overhead(device: Device, pace: Pace) -> Iterator[Figure]:
    """An operator on a few numbers: dispatch, allocation, launch, and with autograd the graph and its way back."""
    x = torch.ones(_FEW, device=device.name)
    leaf = torch.ones(_FEW, device=device.name, requires_grad=True)

    def forward_and_back() -> None:
        y = leaf
        for _ in range(_CHAIN):
            y = y * x
        # A sum, as a gradient that is handed in makes torch import 500 modules first (half a second and more).
        torch.autograd.backward(y.sum())

    works: tuple[tuple[str, Work, int], ...] = (
        ("operator", partial(torch.mul, x, x), 1),
        ("operator-autograd", forward_and_back, _CHAIN),
        ("launch", partial(torch.mul, x, x, out=torch.empty_like(x)), 1),
    )
    for name, work, calls in works:
        taken = [one / calls for one in times(work, pace)]
        yield figures.duration(name, taken, device=device.name)
