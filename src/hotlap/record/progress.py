"""What the parent and the child tell each other while a run goes on: steps made, the wish to stop, turns."""

import mmap
import os
from pathlib import Path

SIZE = 64
_STOP_AT = 8
_ARM_AT = 9

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
        # Written in every step of the child: an item of a view costs a third of packing a struct.
        self._words = memoryview(self._map).cast("Q")

    @property
    def steps(self) -> int:
        """Steps made so far."""
        return self._words[0]

    @steps.setter
    def steps(self, value: int) -> None:
        self._words[0] = value

    @property
    def arm(self) -> int:
        """Number of the arm that is at work."""
        return self._map[_ARM_AT]

    @arm.setter
    def arm(self, value: int) -> None:
        self._map[_ARM_AT] = min(value, 255)

    @property
    def stop(self) -> bool:
        """The parent wants the run to end after the current step."""
        return self._map[_STOP_AT] != 0

    def ask_to_stop(self) -> None:
        """PARENT: end after the current step."""
        self._map[_STOP_AT] = 1

    def close(self) -> None:
        """Let go of the page."""
        self._words.release()
        self._map.close()
