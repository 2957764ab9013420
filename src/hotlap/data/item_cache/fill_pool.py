"""Forked processes that compute items into shared memory: the first filling of a cache, in parallel.

Each is a copy of this process, as a worker of a DataLoader is. What it has computed it notes where all processes see it
(`Progress`), so that one which is killed in the middle of an item leaves nothing behind that would be handed out.
"""

import contextlib
import gc
import os
import signal
from collections.abc import Callable
from time import perf_counter
from typing import NoReturn

import torch

from hotlap.data.checks.forked import start_copy

# What is computed is noted this often: it takes 0.2 ms to see that nothing was drawn or changed. More at once, of
# pictures of 28 x 28, are no faster: they no longer lie in a core's cache.
_NOTE_S = 0.02
_MOST_AT_ONCE = 256


def fill_in_copies(
    compute: Callable[[range], bool], *, num_items: int, num_processes: int, item_s: float, limit_s: float
) -> None:
    """Have all items computed in copies of this process; returns when they are done, or the time is over.

    Arguments:
        compute: called there with positions, whose items it keeps; False: no more.
        item_s: seconds that an item takes.
    """
    owner = os.getpid()
    at_once = max(1, min(_MOST_AT_ONCE, int(_NOTE_S / max(item_s, 1e-7))))

    def fill(number: int) -> NoReturn:
        gc.freeze()  # as `forked` does
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        torch.set_num_threads(1)
        with contextlib.suppress(Exception):  # the script's code; the script meets it when it asks for that item itself
            for start in range(number * at_once, num_items, num_processes * at_once):
                part = range(start, min(start + at_once, num_items))
                if os.getppid() != owner or not compute(part):
                    break
        os._exit(0)

    processes = [start_copy(fill, number) for number in range(num_processes)]
    until_s = perf_counter() + limit_s
    try:
        for process in processes:
            process.join(max(0.0, until_s - perf_counter()))
    finally:
        for process in processes:
            process.kill()
            process.join()
            process.close()
