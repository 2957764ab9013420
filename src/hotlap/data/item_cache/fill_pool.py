"""Forked processes that compute items into shared memory: the first filling of a cache, in parallel.

Each is a copy of this process, as a worker of a DataLoader is, and takes one part of the items after the other out of a
pipe until that is empty. What it has computed it notes where all processes see it (`Progress`), so that one which is
killed in the middle of an item leaves nothing behind that would be handed out.
"""

import contextlib
import gc
import os
import signal
from array import array
from collections.abc import Callable
from multiprocessing.connection import wait
from time import perf_counter
from typing import NoReturn, final

import torch

from hotlap.data.checks.forked import start_copy

# So many numbers fit into an empty pipe, and are written whole (PIPE_BUF on Linux; `man 7 pipe`).
_MOST_PARTS = 4096 // 8

# What is computed is noted this often, so that a batch that waits for a few items is not held up; less often where none
# waits, for it takes 0.2 ms to see that nothing was drawn or changed. More at once no longer lie in a core's cache.
_NOTE_S, _NOTE_WAITED_FOR_S = 0.005, 0.02
_MOST_AT_ONCE = 128

# Beside a training these processes take only time that nobody else wants.
_NICENESS = 10


@final
class FillPool:
    """Some processes that fill one store."""

    def __init__(
        self,
        compute: Callable[[range], bool],
        *,
        num_items: int,
        num_processes: int,
        item_s: float,
        waited_for: bool = False,
    ) -> None:
        """Starts the processes.

        Arguments:
            compute: called there with positions, whose items it keeps; False: no more.
            item_s: seconds that an item takes.
            waited_for: nothing trains meanwhile, so that they need not stand back.
        """
        self._owner = os.getpid()
        self._compute = compute
        self._num_items = num_items
        self._part = -(-num_items // _MOST_PARTS)
        note_s = _NOTE_WAITED_FOR_S if waited_for else _NOTE_S
        at_once = max(1, min(_MOST_AT_ONCE, int(note_s / max(item_s, 1e-7))))
        self._at_once = -(-self._part // -(-self._part // at_once))  # no small rest of a part
        self._niceness = 0 if waited_for else _NICENESS
        parts, end = os.pipe()
        os.write(end, array("q", range(0, num_items, self._part)).tobytes())
        os.close(end)
        self._processes = [start_copy(self._live, parts, self._owner) for _ in range(num_processes)]
        os.close(parts)

    @property
    def alive(self) -> bool:
        """True while one of them has something to do."""
        return bool(self._running())

    def wait(self, limit_s: float) -> None:
        """Until they are done, or the time is over."""
        until_s = perf_counter() + limit_s
        # Asked once a turn: with nobody left to wait for, `wait` would sleep for all of the time.
        while (running := self._running()) and (left_s := until_s - perf_counter()) > 0:
            wait(running, left_s)

    def _running(self) -> list[int]:
        return [process.sentinel for process in self._processes if process.exitcode is None]

    def stop(self) -> None:
        """End the processes. A copy of this process that lets go of this object leaves them alone."""
        if os.getpid() != self._owner:
            return
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
            process.close()
        self._processes = []

    def _live(self, parts: int, parent: int) -> NoReturn:
        """IN THE PROCESS."""
        gc.freeze()  # as `forked` does
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.nice(self._niceness)
        torch.set_num_threads(1)
        with contextlib.suppress(Exception):  # the script's code; the script meets it when it asks for that item itself
            while data := os.read(parts, 8):
                (first,) = array("q", data)
                part = range(first, min(first + self._part, self._num_items))
                for start in range(0, len(part), self._at_once):
                    if os.getppid() != parent or not self._compute(part[start : start + self._at_once]):
                        os._exit(0)
        os._exit(0)
