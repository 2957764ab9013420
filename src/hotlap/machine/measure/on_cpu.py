"""The processors: matrix products, memory bandwidth, and what one operator costs before it computes anything."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import torch

from hotlap import cgroups
from hotlap.machine import figures
from hotlap.machine.files import text
from hotlap.machine.measure.pace import TRIAL, Pace, times
from hotlap.record import Figure, Unit

# Without instructions for them, bfloat16, float16 and int8 products are emulated, a hundred times slower than float32:
# tried on a small product first, and measured on what takes a bearable time.
_TRIAL_SIDE = 256
_BEARABLE_S = 0.1
_HALF_DTYPES = (torch.bfloat16, torch.float16)
# An operator on so few elements is all overhead.
_FEW = 8
_LEAST_ARRAY_BYTES = 16 << 20


def measure(pace: Pace) -> Iterator[Figure]:
    """All figures of the processors, on all threads that torch chose, and where it tells something on one."""
    every = torch.get_num_threads()
    yield from _products(pace, every)
    arrays = _arrays(pace)
    for count in dict.fromkeys((1, every)):
        torch.set_num_threads(count)
        try:
            yield from _bandwidth(arrays, pace, count)
        finally:
            torch.set_num_threads(every)
    yield from _overhead(pace)


def _products(pace: Pace, threads: int) -> Iterator[Figure]:
    for dtype in (torch.float32, torch.float64):
        yield _product(dtype, pace.side, pace, threads)
    if threads > 1:
        torch.set_num_threads(1)
        try:
            yield _product(torch.float32, pace.side, pace, 1)
        finally:
            torch.set_num_threads(threads)
    for dtype in _HALF_DTYPES:
        yield _product(dtype, _bearable(dtype, pace), pace, threads)
    yield from _int8(pace, threads)


def _bearable(dtype: torch.dtype, pace: Pace) -> int:
    """The side of a product that does not take forever."""
    a = torch.ones(_TRIAL_SIDE, _TRIAL_SIDE).to(dtype)
    trial_s = min(times(lambda: a @ a, TRIAL))
    return pace.side if trial_s * (pace.side / _TRIAL_SIDE) ** 3 < _BEARABLE_S else _TRIAL_SIDE // 2


def _product(dtype: torch.dtype, side: int, pace: Pace, threads: int) -> Figure:
    a = torch.randn(side, side).to(dtype)
    b = torch.randn(side, side).to(dtype)
    out = torch.empty(side, side, dtype=dtype)
    return figures.rate(
        "matmul",
        2.0 * side**3,
        times(lambda: torch.mm(a, b, out=out), pace),
        unit=Unit.FLOP_PER_S,
        variant=_name(dtype),
        threads=threads,
        how=f"{side} x {side}",
    )


def _int8(pace: Pace, threads: int) -> Iterator[Figure]:
    """int8 products have no public operator for the CPU in every version; where this one fails there is no figure."""
    product: Callable[..., torch.Tensor] | None = getattr(torch, "_int_mm", None)
    if product is None:
        return
    side = pace.side
    a = torch.randint(-8, 8, (side, side), dtype=torch.int8)
    b = torch.randint(-8, 8, (side, side), dtype=torch.int8)
    small = a[:_TRIAL_SIDE, :_TRIAL_SIDE].contiguous()
    try:
        trial_s = min(times(lambda: product(small, small), TRIAL))
    except RuntimeError:
        return
    if trial_s * (side / _TRIAL_SIDE) ** 3 > _BEARABLE_S:
        return
    yield figures.rate(
        "matmul",
        2.0 * side**3,
        times(lambda: product(a, b), pace),
        unit=Unit.OP_PER_S,
        variant="int8",
        threads=threads,
        how=f"{side} x {side}",
    )


def _arrays(pace: Pace) -> list[torch.Tensor]:
    """Three that fit into no cache, written once so that their pages are there."""
    return [torch.full((_array_bytes(pace) // 4,), float(value)) for value in (1, 2, 3)]


def _bandwidth(tensors: list[torch.Tensor], pace: Pace, threads: int) -> Iterator[Figure]:
    """Bytes that the program moves, as STREAM counts them; a cache line read before it is written is not counted."""
    a, b, c = tensors
    count = len(a)
    works: tuple[tuple[str, int, Callable[[], object]], ...] = (
        ("read", 1, lambda: torch.sum(a)),
        ("copy", 2, lambda: a.copy_(b)),
        ("triad", 3, lambda: torch.add(b, c, alpha=2.0, out=a)),
    )
    for name, arrays, work in works:
        yield figures.rate(
            name,
            4.0 * arrays * count,
            times(work, pace),
            unit=Unit.BYTE_PER_S,
            variant="one thread" if threads == 1 else "all threads",
            threads=threads,
            how=f"{arrays} array{'s' if arrays > 1 else ''} of {4 * count >> 20} MiB",
        )


def _array_bytes(pace: Pace) -> int:
    """STREAM asks for four times the last cache; never more than a 16th of the memory."""
    wanted = max(pace.copy_bytes, pace.caches * _last_cache_bytes())
    free = min(int(psutil.virtual_memory().available), cgroups.memory_left_bytes() or 1 << 62)
    return max(_LEAST_ARRAY_BYTES, min(wanted, free // 16)) // 4096 * 4096


def _last_cache_bytes() -> int:
    """Of the first processor, as the kernel tells it ("36608K"); 0 where it does not."""
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    sizes = [(text(path) or "").strip() for path in folder.glob("index*/size")]
    return max((int(size[:-1]) << 10 for size in sizes if re.fullmatch(r"\d+K", size)), default=0)


def _overhead(pace: Pace) -> Iterator[Figure]:
    """An operator on a few numbers: dispatch, allocation, and with autograd the graph and its way back."""
    x = torch.ones(_FEW)
    yield figures.duration("operator", times(lambda: torch.mul(x, x), pace), how=f"multiplies {_FEW} numbers")
    leaf = torch.ones(_FEW, requires_grad=True)
    chain = 32

    def forward_and_back() -> None:
        y = leaf
        for _ in range(chain):
            y = y * x
        # A sum, as a gradient that is handed in makes torch import 500 modules first (half a second and more).
        torch.autograd.backward(y.sum())

    taken = [one / chain for one in times(forward_and_back, pace)]
    yield figures.duration("operator-autograd", taken, how=f"the same forward and backward, mean of a chain of {chain}")
    out = torch.empty(_FEW)
    yield figures.duration(
        "launch", times(lambda: torch.mul(x, x, out=out), pace), how="the same without allocating: the floor of a call"
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
