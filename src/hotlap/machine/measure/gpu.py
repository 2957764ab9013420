"""A GPU as torch.cuda sees it: its figures, also of copies to and from it."""

from collections.abc import Iterator
from functools import partial

import torch

from hotlap.machine import figures
from hotlap.machine.measure.timing import Pace, times
from hotlap.machine.measure.work import Device, bandwidth, overhead, product, products
from hotlap.record import Figure, TorchDevice, Unit
from hotlap.units import size

# TF32 and bfloat16 came with Ampere.
# https://docs.nvidia.com/cuda/cuda-c-programming-guide/ (compute capabilities, arithmetic instructions).
_AMPERE = (8, 0)
_MOST_SIDE = 8192
_COPY_SIZES = (64 << 10, 1 << 20, 16 << 20, 256 << 20)


def describe(number: int) -> TorchDevice:
    """The GPU as torch sees it."""
    seen = torch.cuda.get_device_properties(number)
    return TorchDevice(name=str(seen.name), capability=(int(seen.major), int(seen.minor)))


def measure(pace: Pace, number: int) -> Iterator[Figure]:
    """All figures of the GPU that torch calls cuda:`number`."""
    with torch.cuda.device(number):
        free_bytes, _ = torch.cuda.mem_get_info()
        device = Device(name=f"cuda:{number}", free_bytes=int(free_bytes), most_side=_MOST_SIDE)
        newer = torch.cuda.get_device_capability() >= _AMPERE
        before = torch.get_float32_matmul_precision()
        try:
            torch.set_float32_matmul_precision("highest")
            halves = (torch.float16, torch.bfloat16) if newer or torch.version.hip else (torch.float16,)
            yield from products(device, pace, (torch.float32, torch.float64, *halves))
            if newer and torch.version.cuda:
                torch.set_float32_matmul_precision("high")
                yield product(device, pace, torch.float32, "tf32")
        finally:
            torch.set_float32_matmul_precision(before)
        yield from bandwidth(device, pace)
        yield from overhead(device, pace)
        yield from _copies(device, pace)
        torch.cuda.empty_cache()


def _copies(device: Device, pace: Pace) -> Iterator[Figure]:
    for num_bytes in (some for some in _COPY_SIZES if some <= device.free_bytes // 4):
        there = torch.empty(num_bytes, dtype=torch.uint8, device=device.name)
        for kind in ("pinned", "pageable"):
            here = torch.ones(num_bytes, dtype=torch.uint8, pin_memory=kind == "pinned")
            for name, target, source in (("to-device", there, here), ("to-host", here, there)):
                yield figures.rate(
                    name,
                    float(num_bytes),
                    times(partial(target.copy_, source, non_blocking=True), pace),
                    unit=Unit.BYTE_PER_S,
                    device=device.name,
                    variant=f"{kind} {size(num_bytes)}",
                )
