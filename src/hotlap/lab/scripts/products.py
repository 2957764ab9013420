"""`python -m hotlap.lab.scripts.products OUT PACE R,I,C ...`: products in NumPy, in torch and on the GPU.

Asked by `hotlap.lab.products`. PACE: quick or thorough; each R,I,C is a shape.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch.utils.benchmark import Timer

from hotlap.lab.products import COPIES, GPU, NUMPY, TORCH, Answer, Shape
from hotlap.record import order, save

Work = Callable[[], object]


def main(shapes: Sequence[Shape], *, rounds: int, round_s: float) -> Answer:
    """Time them: each way once a round, for so many seconds."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    found: dict[str, list[tuple[float, ...]]] = {}
    for shape in shapes:
        works = _on_cpu(shape) | (_on_gpu(shape) if gpu else {})
        for way, seconds in _timed(works, rounds, round_s).items():
            found.setdefault(way, []).append(seconds)
    return Answer(gpu=gpu, times={way: tuple(times) for way, times in found.items()})


def _timed(works: Mapping[str, Work], rounds: int, round_s: float) -> dict[str, tuple[float, ...]]:
    """Name -> seconds of one call, once for each round, in a balanced order. torch's Timer waits for the device at both
    ends."""
    threads = torch.get_num_threads()
    timers = [Timer("work()", globals={"work": work}, num_threads=threads) for work in works.values()]
    found: list[list[float]] = [[] for _ in timers]
    for each in islice(order.rounds(len(timers), seed=os.getpid()), rounds):
        for k in each:
            found[k].append(timers[k].blocked_autorange(min_run_time=round_s).median)
    return {name: tuple(times) for name, times in zip(works, found, strict=True)}


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
    rounds, round_s = (5, 0.005) if pace == "quick" else (9, 0.03)
    asked = [(int(rows), int(inner), int(columns)) for rows, inner, columns in (word.split(",") for word in words)]
    save(main(asked, rounds=rounds, round_s=round_s), Path(out))
