"""A GPU: matrix products, memory bandwidth, what an operator costs, copies; and what its driver says under load.

Device time is taken by events on the stream; what the host has a part in (operators in a row, copies) by the host's
clock, from an idle device to an idle device.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from hotlap.machine import figures, nvidia
from hotlap.machine.measure.pace import Pace
from hotlap.record import Figure, TorchDevice, UnderLoad, Unit

# Side of the product for each dtype: large enough to fill the largest GPU, and a few dozen milliseconds on a small one.
_SIDES = {
    torch.float64: 2048,
    torch.float32: 4096,
    torch.float16: 8192,
    torch.bfloat16: 8192,
}
# Products of int8 need capability 7.5 (https://docs.nvidia.com/cuda/cublas/, cublasLtMatmul).
_INT8 = (7, 5)
# On a small or nearly full card everything is done at half the side: inputs and output take 8192**2 * 2 B * 3 = 0.4 GB.
_ROOM_BYTES = 2 << 30
# Larger than four times the last cache of any GPU so far (256 MB on MI300X; 126 MB on B200).
_COPY_BYTES = 1 << 30
_COPY_SIZES = (64 << 10, 1 << 20, 16 << 20, 256 << 20)
_FEW = 8
# Operators in a row: the first ones fill the queue, so that their mean is that of the slower side, host or device.
_ROW = 256
# Long enough for clocks to settle and for nvidia-smi to look (0.1 to 1 s).
_LOAD_S = 2.0


def measure(pace: Pace, number: int) -> Iterator[Figure]:
    """All figures of the GPU that torch calls cuda:`number`."""
    with torch.cuda.device(number):
        yield from _products(pace, number)
        yield from _bandwidth(pace, number)
        yield from _overhead(pace, number)
        yield from _copies(pace, number)
        torch.cuda.empty_cache()


def describe(number: int) -> TorchDevice:
    """The GPU as torch sees it."""
    seen = torch.cuda.get_device_properties(number)
    free_bytes, _ = torch.cuda.mem_get_info(number)
    return TorchDevice(
        name=str(seen.name),
        capability=(int(seen.major), int(seen.minor)),
        memory_bytes=int(seen.total_memory),
        free_bytes=int(free_bytes),
    )


def under_load(number: int) -> UnderLoad | None:
    """Asks the driver while products are waiting in the stream; None where it does not answer."""
    with torch.cuda.device(number):
        side = _side(torch.float16)
        a, b, out = (torch.ones(side, side, dtype=torch.float16, device="cuda") for _ in range(3))
        torch.mm(a, b, out=out)
        once_s = _events_s(lambda: torch.mm(a, b, out=out), 1)
        for _ in range(max(1, min(10_000, round(_LOAD_S / max(once_s, 1e-6))))):
            torch.mm(a, b, out=out)
        driver = nvidia.ask()
        torch.cuda.synchronize()
    gpu = _same(driver, number) if driver else None
    if gpu is None:
        return None
    return UnderLoad(
        device=f"cuda:{number}",
        uuid=gpu.uuid,
        slowdowns=gpu.slowdowns,
        sm_mhz=gpu.sm_mhz,
        power_w=gpu.power_w,
        temperature_c=gpu.temperature_c,
        link_generation=gpu.link_generation,
        link_width=gpu.link_width,
    )


def _same(driver: nvidia.Driver, number: int) -> nvidia.Gpu | None:
    """The driver's view of cuda:`number`: by uuid, as both count in different orders."""
    uuid = getattr(torch.cuda.get_device_properties(number), "uuid", None)
    for gpu in driver.gpus:
        if uuid is not None and gpu.uuid == f"GPU-{uuid}":
            return gpu
    return driver.gpus[0] if len(driver.gpus) == 1 else None


def _products(pace: Pace, number: int) -> Iterator[Figure]:
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        for dtype in (torch.float32, torch.float64, torch.float16):
            yield _product(dtype, pace, number)
        if torch.cuda.is_bf16_supported(including_emulation=False):
            yield _product(torch.bfloat16, pace, number)
        if torch.version.cuda and torch.cuda.get_device_capability() >= (8, 0):
            torch.set_float32_matmul_precision("high")
            yield _product(torch.float32, pace, number, variant="tf32")
    finally:
        torch.set_float32_matmul_precision(before)
    yield from _int8(pace, number)


def _side(dtype: torch.dtype) -> int:
    free_bytes, _ = torch.cuda.mem_get_info()
    return _SIDES[dtype] if free_bytes > _ROOM_BYTES else _SIDES[dtype] // 4


def _product(dtype: torch.dtype, pace: Pace, number: int, *, variant: str | None = None) -> Figure:
    side = _side(dtype)
    a, b = (torch.randn(side, side, device="cuda").to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    return figures.rate(
        "matmul",
        2.0 * side**3,
        _device_times(lambda: torch.mm(a, b, out=out), pace),
        unit=Unit.FLOP_PER_S,
        device=f"cuda:{number}",
        variant=variant or str(dtype).removeprefix("torch."),
        how=f"{side} x {side}",
    )


def _int8(pace: Pace, number: int) -> Iterator[Figure]:
    product: Callable[..., torch.Tensor] | None = getattr(torch, "_int_mm", None)
    if product is None or not torch.version.cuda or torch.cuda.get_device_capability() < _INT8:
        return
    side = _side(torch.float16)
    a, b = (torch.randint(-8, 8, (side, side), dtype=torch.int8, device="cuda") for _ in range(2))
    try:
        # The second factor column by column: the only layout that every generation multiplies.
        taken = _device_times(lambda: product(a, b.t()), pace)
    except RuntimeError:
        return
    yield figures.rate(
        "matmul",
        2.0 * side**3,
        taken,
        unit=Unit.OP_PER_S,
        device=f"cuda:{number}",
        variant="int8",
        how=f"{side} x {side}",
    )


def _bandwidth(pace: Pace, number: int) -> Iterator[Figure]:
    free_bytes, _ = torch.cuda.mem_get_info()
    count = min(_COPY_BYTES, free_bytes // 8) // 4
    a, b, c = (torch.full((count,), float(value), device="cuda") for value in (1, 2, 3))
    works: tuple[tuple[str, int, Callable[[], object]], ...] = (
        ("read", 1, lambda: torch.sum(a)),
        ("copy", 2, lambda: a.copy_(b)),
        ("triad", 3, lambda: torch.add(b, c, alpha=2.0, out=a)),
    )
    for name, arrays, work in works:
        yield figures.rate(
            name,
            4.0 * arrays * count,
            _device_times(work, pace),
            unit=Unit.BYTE_PER_S,
            device=f"cuda:{number}",
            how=f"{arrays} array{'s' if arrays > 1 else ''} of {4 * count >> 20} MiB",
        )


def _overhead(pace: Pace, number: int) -> Iterator[Figure]:
    device = f"cuda:{number}"
    x = torch.ones(_FEW, device="cuda")
    out = torch.empty_like(x)
    leaf = torch.ones(_FEW, device="cuda", requires_grad=True)

    def row(work: Callable[[], object]) -> Callable[[], None]:
        def many() -> None:
            for _ in range(_ROW):
                work()

        return many

    def forward_and_back() -> None:
        y = leaf
        for _ in range(_ROW):
            y = y * x
        torch.autograd.backward(y.sum())

    rows: tuple[tuple[str, Callable[[], None], str], ...] = (
        ("operator", row(lambda: torch.mul(x, x)), f"multiplies {_FEW} numbers, mean of {_ROW} in a row"),
        ("operator-autograd", forward_and_back, f"the same forward and backward, mean of {_ROW} in a row"),
        ("launch", row(lambda: torch.mul(x, x, out=out)), "the same without allocating: the floor of a call"),
    )
    for name, work, how in rows:
        taken = [one / _ROW for one in _host_times(work, pace)]
        yield figures.duration(name, taken, device=device, how=how)

    def alone() -> None:
        torch.mul(x, x, out=out)
        torch.cuda.synchronize()

    yield figures.duration(
        "round-trip", _host_times(alone, pace), device=device, how="one operator, and the host waits for it"
    )


def _copies(pace: Pace, number: int) -> Iterator[Figure]:
    free_bytes, _ = torch.cuda.mem_get_info()
    for num_bytes in _COPY_SIZES:
        if num_bytes > free_bytes // 4:
            return
        there = torch.empty(num_bytes, dtype=torch.uint8, device="cuda")
        for kind in ("pinned", "pageable"):
            here = torch.ones(num_bytes, dtype=torch.uint8, pin_memory=kind == "pinned")
            for name, target, source in (("to-device", there, here), ("to-host", here, there)):
                yield figures.rate(
                    name,
                    float(num_bytes),
                    _copy_times(target, source, pace),
                    unit=Unit.BYTE_PER_S,
                    device=f"cuda:{number}",
                    variant=f"{kind} {_size(num_bytes)}",
                    how="copies in a row, to the end of the last",
                )


def _copy_times(target: torch.Tensor, source: torch.Tensor, pace: Pace) -> list[float]:
    return _host_times(lambda: target.copy_(source, non_blocking=True), pace)


def _size(num_bytes: int) -> str:
    return f"{num_bytes >> 20} MiB" if num_bytes >= 1 << 20 else f"{num_bytes >> 10} KiB"


def _device_times(work: Callable[[], object], pace: Pace) -> list[float]:
    """Seconds of one `work()` on the stream, once for each repeat, by events."""
    for _ in range(3):  # the first calls choose kernels and raise the clocks
        work()
    count = max(1, round(pace.repeat_s / max(_events_s(work, 1), 1e-6)))
    return [_events_s(work, count) for _ in range(pace.repeats)]


def _events_s(work: Callable[[], object], count: int) -> float:
    event: Any = torch.cuda.Event
    begin, end = event(enable_timing=True), event(enable_timing=True)
    begin.record()
    for _ in range(count):
        work()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / count


def _host_times(work: Callable[[], object], pace: Pace) -> list[float]:
    """The same by the host's clock, from an idle device to an idle device."""
    for _ in range(3):
        work()
    count = max(1, round(pace.repeat_s / max(_host_s(work, 1), 1e-6)))
    return [_host_s(work, count) for _ in range(pace.repeats)]


def _host_s(work: Callable[[], object], count: int) -> float:
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(count):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / count
