"""What the parent and the child tell each other while a run goes on: steps made, the wish to stop, turns."""

import mmap
import os
import struct
from pathlib import Path

_NUMBER = struct.Struct("<Q")
_STEPS_AT = 0
_ARM_AT = 8
_STOP_AT = 16
_PROCESSES_AT = 24
_LEFT_AT = 64

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


class Progress:
    """The child counts its steps here; the parent looks whenever it likes and may ask the child to end."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, SIZE)
            self._map = mmap.mmap(descriptor, SIZE)
        finally:
            os.close(descriptor)

    def _get(self, at: int) -> int:
        return int(_NUMBER.unpack_from(self._map, at)[0])

    @property
    def steps(self) -> int:
        """Steps made so far."""
        return self._get(_STEPS_AT)

    @steps.setter
    def steps(self, value: int) -> None:
        _NUMBER.pack_into(self._map, _STEPS_AT, value)

    @property
    def arm(self) -> int:
        """Number of the arm that is at work."""
        return self._map[_ARM_AT]

    @arm.setter
    def arm(self, value: int) -> None:
        self._map[_ARM_AT] = min(value, 255)

    @property
    def processes(self) -> int:
        """Processes on this host that train together."""
        return max(1, self._get(_PROCESSES_AT))

    @processes.setter
    def processes(self, value: int) -> None:
        _NUMBER.pack_into(self._map, _PROCESSES_AT, min(value, _MAX_PROCESSES))

    def ask_to_stop(self) -> None:
        """PARENT: end after the current step; several processes after one that all will make."""
        last = self.steps + (_STEPS_TO_AGREE if self.processes > 1 else 0)
        _NUMBER.pack_into(self._map, _STOP_AT, last + 1)

    def must_stop(self, steps: int) -> bool:
        """CHILD: the parent wants it to end, and `steps` are enough."""
        stop = self._get(_STOP_AT)
        return 0 < stop <= steps + 1

    def leave(self, process: int) -> None:
        """CHILD: number `process` on this host has written its record, and waits to be ended."""
        self._map[_LEFT_AT + min(process, _MAX_PROCESSES - 1)] = 1

    @property
    def num_left(self) -> int:
        """PARENT: processes that wait to be ended."""
        return self._map[_LEFT_AT:SIZE].count(1)

    def close(self) -> None:
        """Let go of the page."""
        self._map.close()
