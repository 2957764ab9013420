"""What the script prints between its steps, kept for the gate."""

import sys
from collections.abc import Callable

from hotlap.levers.lever import Patch
from hotlap.probe.guard import Guard

# Lines kept, and characters of each: a training that prints more has said enough by then.
_MAX_LINES, _MAX_CHARACTERS = 500, 300


class Printed:
    """Hears what is written to stdout; it is written as before."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []
        """(steps made before, text), from the end of the first step on."""
        self._begun = ""

    def install(self, patch: Patch, guard: Guard, steps: Callable[[], int]) -> None:
        """`steps` answers how many were made. Another stream that the script puts there mostly writes to this one."""
        stream = sys.stdout
        write = getattr(stream, "write", None)
        if write is None:
            return
        heard = guard(lambda text: self._heard(text, steps()), "what the script prints")

        def written(text: str) -> int:
            heard(text)
            return int(write(text))

        try:
            patch.set(stream, "write", written)
        except AttributeError:  # a stream that cannot be changed is not heard
            return

    def _heard(self, text: str, steps: int) -> None:
        *whole, self._begun = (self._begun + text).split("\n")
        self._begun = self._begun[-_MAX_CHARACTERS:]
        if not steps or len(self.lines) >= _MAX_LINES:
            return
        # A line that is written again and again (a progress bar) says what the clock says.
        self.lines += [(steps, line[:_MAX_CHARACTERS]) for line in whole if line.strip() and "\r" not in line]
