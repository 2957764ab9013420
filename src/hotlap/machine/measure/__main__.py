"""`python -m hotlap.machine.measure OUT FOLDER [quick]`: measures, and writes what it found to OUT."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

from hotlap.machine.measure import on_cpu, on_disk, on_gpu
from hotlap.machine.measure.pace import QUICK, THOROUGH, Pace
from hotlap.machine.measured import Measured
from hotlap.record import Figure, TorchBuild, UnderLoad, save


def main(out: Path, folder: Path, pace: Pace) -> None:
    """Everything, one device after the other. A device that fails is told, and spares the others."""
    build = _build()
    found: list[Figure] = []
    loads: list[UnderLoad] = []
    failures: list[str] = []

    def attempt(name: str, measure: Callable[[], Iterator[Figure]]) -> None:
        try:
            for figure in measure():
                found.append(figure)
        except (RuntimeError, OSError, MemoryError) as error:
            first = (str(error) or type(error).__name__).splitlines()[0]
            failures.append(f"Measuring {name} ended early: {first}")

    attempt("the processor", partial(on_cpu.measure, pace))
    attempt("the disk", partial(on_disk.measure, pace, folder))
    for number in range(len(build.devices)):
        attempt(f"cuda:{number}", partial(on_gpu.measure, pace, number))
        try:
            load = on_gpu.under_load(number)
        except RuntimeError as error:
            failures.append(f"cuda:{number} could not be watched under load: {str(error).splitlines()[0]}")
        else:
            loads += [load] if load else []
    save(
        Measured(torch=build, figures=tuple(found), under_load=tuple(loads), failures=tuple(failures)),
        out,
    )


def _build() -> TorchBuild:
    works = torch.cuda.is_available()
    return TorchBuild(
        version=str(torch.__version__),
        cuda=torch.version.cuda,
        hip=torch.version.hip,
        cuda_works=works,
        arch_list=tuple(torch.cuda.get_arch_list()) if works else (),
        tf32=torch.get_float32_matmul_precision() != "highest" if works else None,
        num_threads=torch.get_num_threads(),
        devices=tuple(on_gpu.describe(number) for number in range(torch.cuda.device_count())) if works else (),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), QUICK if "quick" in sys.argv[3:] else THOROUGH)
