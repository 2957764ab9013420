"""Runs in processes of its own, which may import torch: `python -m hotlap.lab.child.TASK QUESTION ANSWER`."""

import os
import sys
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import TypeVar

from hotlap.record import load, order, save

Q = TypeVar("Q")
Work = Callable[[], object]


def answer(kind: type[Q], work: Callable[[Q], object]) -> None:
    """Read the question, work, write the answer."""
    save(work(load(Path(sys.argv[1]), kind)), Path(sys.argv[2]))


def timed(works: Mapping[str, Work], *, rounds: int, round_s: float) -> dict[str, tuple[float, ...]]:
    """Name -> seconds of one call, once for each round: about `round_s` of calls each, in a balanced order.

    torch's Timer waits for the device at both ends.
    """
    import torch
    from torch.utils.benchmark import Timer

    threads = torch.get_num_threads()
    timers = [Timer("work()", globals={"work": work}, num_threads=threads) for work in works.values()]
    once_s = [timer.blocked_autorange(min_run_time=round_s).median for timer in timers]
    found: list[list[float]] = [[] for _ in timers]
    for each in islice(order.rounds(len(timers), seed=os.getpid()), rounds):
        for k in each:
            number = max(1, round(round_s / max(once_s[k], 1e-9)))
            found[k].append(timers[k].timeit(number).mean)
    return {name: tuple(times) for name, times in zip(works, found, strict=True)}
