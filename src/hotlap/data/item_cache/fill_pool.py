"""Forked processes that compute items into shared memory: the first filling of a cache, in parallel.

A filler is a copy of this process as a worker of a DataLoader is. It reads item numbers from a pipe, computes the items
into the shared store, and answers with the same numbers; only what was answered counts as kept. So a filler that is
killed in the middle of an item leaves nothing behind that would be handed out.
"""

import fcntl
import multiprocessing
import os
import signal
import stat
import struct
import sys
import warnings
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from time import perf_counter, sleep
from typing import Any, NoReturn, final

Work = Callable[[list[int]], str | None]
"""Computes items into the store; the reason why none may be kept, or None."""

# Writes of so many bytes to a pipe are done whole or not at all (PIPE_BUF on Linux; `man 7 pipe`).
_BLOCK_BYTES = 4096

# An answer takes this long to come at most, so that a batch that waits for a few items is not held up.
_ANSWER_S = 0.005
_MOST_AT_ONCE = 128

# How often a filler that has nothing to do looks whether this process is still there.
_LOOK_S = 2.0

# Beside a training fillers take only time that nobody else wants.
_NICENESS = 10

_REFUSED, _FAILED = b"r", b"f"


def cannot_fork(*, shares_files: bool = False) -> str | None:
    """Why items should not be computed in copies of this process; None if they may.

    `shares_files`: the script's own workers are such copies, with whatever is open.
    """
    if sys.platform != "linux":
        return "fillers are used on Linux only"
    if multiprocessing.current_process().daemon:
        return "this is a worker process itself"
    name = None if shares_files else _shared_file()
    return f"{name} is open for reading, and copies of this process would share its position" if name else None


def _shared_file() -> str | None:
    """A file or socket that this process reads from: reading it in two processes at once mixes up both.

    A file whose position is still 0 was never read, or is mapped, or is read in a way that no position matters to.
    """
    for entry in Path("/proc/self/fd").iterdir():
        number = int(entry.name)
        try:
            mode = os.fstat(number).st_mode
            read = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_WRONLY
            read = read and (stat.S_ISSOCK(mode) or (stat.S_ISREG(mode) and os.lseek(number, 0, os.SEEK_CUR) > 0))
            name = os.readlink(entry)
        except OSError:
            continue  # closed since the folder was read
        if read and number > 2 and not name.endswith(" (deleted)"):
            return name
    return None


@final
class FillPool:
    """Some processes that fill one store."""

    def __init__(
        self,
        begin: Callable[[int], Work],
        *,
        num_processes: int,
        item_s: float,
        is_missing: Callable[[int], bool],
        waited_for: bool = False,
    ) -> None:
        """Starts the processes.

        Arguments:
            begin: called with a number in each process; gives what computes items there.
            is_missing: an item is sent only if this is true of it when its turn comes.
            waited_for: nothing trains meanwhile, so that they need not stand back.
        """
        self._niceness = 0 if waited_for else _NICENESS
        self.trouble: str | None = None
        """Why they stopped before the end."""
        self.refused = False
        """True if the trouble is that items must not be kept; otherwise they could not be computed here."""
        self.num_outstanding = 0
        self._owner = os.getpid()
        self._backlog: deque[Sequence[int]] = deque()
        self._is_missing = is_missing
        self._closing = False
        self._at_once = max(1, min(_MOST_AT_ONCE, int(_ANSWER_S / max(item_s, 1e-7))))
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        self._complaints, complaints = os.pipe()
        for end in (requests, self._requests, self._answers, self._complaints):
            os.set_blocking(end, False)
        ends = (requests, answers, complaints)
        context = multiprocessing.get_context("fork")
        self._processes: list[Any] = []
        with warnings.catch_warnings():
            # "This process is multi-threaded, use of fork() may lead to deadlocks": true of every DataLoader's workers.
            warnings.simplefilter("ignore", DeprecationWarning)
            for number in range(num_processes):
                process = context.Process(target=self._live, args=(begin, number, ends, os.getpid()), daemon=True)
                process.start()
                self._processes.append(process)
        for end in ends:
            os.close(end)

    def request(self, positions: Sequence[int]) -> None:
        """Have these items computed, in this order."""
        self.num_outstanding += len(positions)
        step = _BLOCK_BYTES // 8
        self._backlog += [positions[start : start + step] for start in range(0, len(positions), step)]
        self._send()

    def close(self) -> None:
        """Nothing more will be asked for: the processes end when they are done."""
        self._closing = True
        self._send()

    def poll(self) -> list[int]:
        """Items that were computed since the last call."""
        done: list[int] = []
        while self._answers >= 0:
            try:
                data = os.read(self._answers, 1 << 16)
            except BlockingIOError:
                break
            if not data:
                break
            done += array("q", data)
        self.num_outstanding -= len(done)
        self._hear()
        self._send()
        return done

    def wait(self, timeout_s: float) -> list[int]:
        """As `poll`, after something was computed, or went wrong, or the time is over."""
        if self.trouble is None:
            wait([self._answers, self._complaints, *(process.sentinel for process in self._processes)], timeout_s)
        return self.poll()

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
        for end in (self._requests, self._answers, self._complaints):
            if end >= 0:
                os.close(end)
        self._requests = self._answers = self._complaints = -1
        self._backlog.clear()
        self.num_outstanding = 0

    def _send(self) -> None:
        while self._backlog and self._requests >= 0:
            # What was computed here in the meantime need not be computed there.
            positions = [position for position in self._backlog[0] if self._is_missing(position)]
            try:
                if positions:
                    os.write(self._requests, array("q", positions).tobytes())
            except (BlockingIOError, BrokenPipeError):
                return
            self.num_outstanding -= len(self._backlog.popleft()) - len(positions)
        if self._closing and self._requests >= 0:
            os.close(self._requests)
            self._requests = -1

    def _hear(self) -> None:
        if self.trouble is not None or self._complaints < 0:
            return
        try:
            data = os.read(self._complaints, _BLOCK_BYTES)
        except BlockingIOError:
            data = b""
        if data:
            (length,) = struct.unpack_from("<H", data, 1)
            self.refused = data[:1] == _REFUSED
            self.trouble = data[3 : 3 + length].decode(errors="replace")
        elif any(process.exitcode for process in self._processes):
            self.trouble = "a process that computed items ahead was killed"

    # In the process

    def _live(self, begin: Callable[[int], Work], number: int, ends: tuple[int, int, int], parent: int) -> NoReturn:
        requests, answers, complaints = ends
        for end in (self._requests, self._answers, self._complaints):
            os.close(end)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.nice(self._niceness)
        try:
            work = begin(number)
            while True:
                positions = self._next(requests, parent)
                reason = work(positions)
                if reason is not None:
                    _complain(complaints, _REFUSED, reason)
                    break
                os.write(answers, array("q", positions).tobytes())
        except Exception as error:  # the script's code; the script meets it when it asks for that item itself
            _complain(complaints, _FAILED, f"{type(error).__name__}: {error}")
        while True:  # this process is ended from outside, after what it said was heard
            sleep(_LOOK_S)
            _leave_without(parent)

    def _next(self, requests: int, parent: int) -> list[int]:
        while True:
            try:
                data = os.read(requests, 8 * self._at_once)
            except BlockingIOError:
                with DefaultSelector() as selector:
                    selector.register(requests, EVENT_READ)
                    selector.select(_LOOK_S)
                _leave_without(parent)
                continue
            if not data:
                os._exit(0)
            return list(array("q", data))


def _leave_without(parent: int) -> None:
    if os.getppid() != parent:
        os._exit(0)


def _complain(end: int, kind: bytes, text: str) -> None:
    words = text.encode(errors="replace")[:1000]
    os.write(end, kind + struct.pack("<H", len(words)) + words)


def wait_for(fillers: FillPool, take: Callable[[list[int]], None], enough: Callable[[], bool], limit_s: float) -> None:
    """Wait until it is enough, there is trouble, or the time is over; `take` gets what was computed."""
    until_s = perf_counter() + limit_s
    while fillers.trouble is None and not enough():
        left_s = until_s - perf_counter()
        if left_s <= 0:
            return
        take(fillers.wait(min(left_s, _LOOK_S)))
