"""`python -m hotlap.lab.scripts.products OUT PACE R,I,C ...`: products in NumPy, in torch and on the GPU.

Asked by `hotlap.lab.products`. PACE: quick or thorough; each R,I,C is a shape.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from hotlap.lab.products import COPIES, GPU, NUMPY, TORCH, Answer, Shape
from hotlap.machine.measure.timing import QUICK, THOROUGH, Pace, Work, times
from hotlap.record import save


def main(shapes: Sequence[Shape], pace: Pace) -> Answer:
    """Time each way of each."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    found: dict[str, list[tuple[float, ...]]] = {}
    for shape in shapes:
        works = _on_cpu(shape) | (_on_gpu(shape) if gpu else {})
        for way, work in works.items():
            found.setdefault(way, []).append(tuple(times(work, pace)))
    return Answer(gpu=gpu, times={way: tuple(each) for way, each in found.items()})


def _on_cpu(shape: Shape) -> dict[str, Work]:
    rows, inner, columns = shape
    rng = np.random.default_rng(0)
    a = rng.standard_normal((rows, inner), dtype=np.float32)
    b = rng.standard_normal(inner if columns == 1 else (inner, columns), dtype=np.float32)
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    return {NUMPY: lambda: a @ b, TORCH: lambda: x @ y}


def _on_gpu(shape: Shape) -> dict[str, Work]:
    rows, inner, columns = shape
    here = [torch.randn(rows, inner), torch.randn(inner if columns == 1 else (inner, columns))]
    x, y = (one.to("cuda") for one in here)
    if columns == 1:
        return {GPU: lambda: x @ y}

    def with_copies() -> None:
        (here[0].to("cuda") @ here[1].to("cuda")).cpu()

    return {GPU: lambda: x @ y, COPIES: with_copies}


if __name__ == "__main__":
    out, pace, *words = sys.argv[1:]
    asked = [(int(rows), int(inner), int(columns)) for rows, inner, columns in (word.split(",") for word in words)]
    save(main(asked, QUICK if pace == "quick" else THOROUGH), Path(out))
