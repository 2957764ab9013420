"""What the parent and the child tell each other while a run goes on: steps made, the wish to stop, turns."""

import mmap
import os
from pathlib import Path

from hotlap.record.moments import Phase

# Words of eight bytes, then one byte a process.
STEPS, STOP, _PROCESSES, REACHED = range(4)
_LEFT_AT = 64
_LEFT, _DONE = 1, 2

# Processes of one training on one host, at most.
_MAX_PROCESSES = 1024

SIZE = _LEFT_AT + _MAX_PROCESSES

# Processes that train together must end after the same step, or one waits in a collective for a peer that is gone. In a
# step that they share they are at most one step apart; one more for the time that the request takes to be seen.
_STEPS_TO_AGREE = 2

READY = b"r"
"""What a child writes when it waits for its turn and its next steps will be recorded."""
WARMING = b"w"
"""The same, when it still warms up."""


def mapped(path: Path, size: int) -> mmap.mmap:
    """The first `size` bytes of a file as memory: what a process writes there is there for others, and when it is gone.

    The file is made, and filled up with zeros, where there is none or a shorter one.

    Raises:
        OSError: it cannot be opened, or there is no room for it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.fstat(descriptor).st_size < size:
            os.ftruncate(descriptor, size)
            # Writing to a mapped page that has no room on the disk would end the training (SIGBUS).
            os.posix_fallocate(descriptor, 0, size)
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)


class Progress:
    """The child counts its steps here; the parent looks whenever it likes and may ask the child to end."""

    def __init__(self, path: Path) -> None:
        self._map = mapped(path, SIZE)
        self.words = memoryview(self._map)[:_LEFT_AT].cast("Q")
        """CHILD, in every step, for speed: it writes the steps made into STEPS, the phase that it begins into REACHED
        (its place in `Phase`, from 1), and asks `must_stop` once `words[STOP]` is not 0. (An item of a view costs a
        third of packing a struct, and a call as much again.)
        """

    @property
    def steps(self) -> int:
        """Steps made so far."""
        return self.words[STEPS]

    @property
    def reached(self) -> Phase | None:
        """INPUT, FORWARD, BACKWARD or OPTIMIZER: what was begun last; None where nothing was."""
        return tuple(Phase)[self.words[REACHED] - 1] if self.words[REACHED] else None

    @property
    def processes(self) -> int:
        """Processes on this host that train together."""
        return max(1, self.words[_PROCESSES])

    @processes.setter
    def processes(self, value: int) -> None:
        self.words[_PROCESSES] = min(value, _MAX_PROCESSES)

    def ask_to_stop(self) -> None:
        """End after the current step; several processes after one that all will make."""
        last = self.steps + (_STEPS_TO_AGREE if self.processes > 1 else 0)
        self.words[STOP] = last + 1

    def must_stop(self, steps: int) -> bool:
        """CHILD: the parent wants it to end, and `steps` are enough."""
        return 0 < self.words[STOP] <= steps + 1

    def done(self, process: int) -> None:
        """CHILD: number `process` on this host wants no more steps. Once none does, all are asked to stop."""
        self._map[_LEFT_AT + min(process, _MAX_PROCESSES - 1)] = _DONE
        if not self.words[STOP] and self._map[_LEFT_AT:SIZE].count(_DONE) >= self.processes:
            self.ask_to_stop()

    def leave(self, process: int) -> None:
        """CHILD: number `process` on this host has written its record, and waits to be ended."""
        self._map[_LEFT_AT + min(process, _MAX_PROCESSES - 1)] = _LEFT

    @property
    def num_left(self) -> int:
        """PARENT: processes that wait to be ended."""
        return self._map[_LEFT_AT:SIZE].count(_LEFT)

    def close(self) -> None:
        """Let go of the page."""
        self.words.release()
        self._map.close()
