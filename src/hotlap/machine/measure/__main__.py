"""`python -m hotlap.machine.measure OUT [quick]`: measures, and writes what it found to OUT."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

from hotlap import cgroups
from hotlap.machine.measure import gpu
from hotlap.machine.measure.timing import QUICK, THOROUGH, Pace
from hotlap.machine.measure.work import Device, bandwidth, overhead, products
from hotlap.record import Figure, Measured, TorchBuild, save


def main(out: Path, pace: Pace) -> None:
    """Everything, one device after the other. A device that fails is told, and spares the others."""
    found: list[Figure] = []
    failures: list[str] = []

    def attempt(name: str, measure: Callable[[], Iterator[Figure]]) -> None:
        try:
            for figure in measure():
                found.append(figure)
        except Exception as error:  # whatever a device or its driver comes up with
            first = (str(error) or type(error).__name__).splitlines()[0]
            failures.append(f"Measuring {name} ended early: {first}")

    build = _build()
    attempt("the processor", partial(_processor, pace))
    for number in range(len(build.devices)):
        attempt(f"cuda:{number}", partial(gpu.measure, pace, number))
    save(Measured(torch=build, figures=tuple(found), failures=tuple(failures)), out)


def _processor(pace: Pace) -> Iterator[Figure]:
    free_bytes, threads = cgroups.available_bytes(), torch.get_num_threads()
    device = Device(name="cpu", free_bytes=free_bytes, most_side=1024, threads=threads)
    yield from products(device, pace, (torch.float32, torch.float64, torch.bfloat16, torch.float16))
    yield from bandwidth(device, pace)
    yield from overhead(device, pace)


def _build() -> TorchBuild:
    works = torch.cuda.is_available()
    return TorchBuild(
        version=str(torch.__version__),
        cuda=torch.version.cuda,
        hip=torch.version.hip,
        arch_list=tuple(torch.cuda.get_arch_list()) if works else (),
        num_threads=torch.get_num_threads(),
        devices=tuple(gpu.describe(number) for number in range(torch.cuda.device_count())) if works else (),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), QUICK if "quick" in sys.argv[2:] else THOROUGH)
