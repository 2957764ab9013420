"""What the script prints and logs between its steps, and by what it lowers its learning rate, kept for the gate."""

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from torch.optim.lr_scheduler import ReduceLROnPlateau

from hotlap.levers.lever import Patch
from hotlap.probe.guard import Guard, call_before
from hotlap.record.run import GIVEN

# Lines kept, and characters of each: a training that prints more has said enough by then.
_MAX_LINES, _MAX_CHARACTERS = 500, 300

# Loggers, and those below them, of which a message tells of code and not of training: warnings name a line of the file.
_OF_CODE = ("py.warnings", "torch")


class Printed:
    """Hears what is written to stdout or given to `logging`; it is written as before."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []
        """(steps made before, text), from the end of the first step on."""
        self._begun = ""

    def install(self, patch: Patch, guard: Guard, steps: Callable[[], int]) -> None:
        """`steps` answers how many were made. Another stream that the script puts there mostly writes to this one.

        Of messages of any level that a logger lets through, without what a handler puts in front: times, processes.
        """

        self._steps = steps
        call_before(patch, ReduceLROnPlateau, "step", guard(self._given, "what schedulers go by"))
        call_before(patch, logging.Logger, "callHandlers", guard(self._logged, "what the script logs"))
        with suppress(AttributeError):  # a stream that is not there, or cannot be changed, is not heard
            call_before(patch, sys.stdout, "write", guard(self._heard, "what the script prints"))

    def _given(self, _: ReduceLROnPlateau, metrics: Any, *args: Any, **kwargs: Any) -> None:
        self._keep(f"{GIVEN}({float(metrics):.16e})")

    def _logged(self, _: logging.Logger, record: logging.LogRecord) -> None:
        if not any(f"{record.name}.".startswith(f"{name}.") for name in _OF_CODE):
            for line in record.getMessage().splitlines():
                self._keep(line[:_MAX_CHARACTERS])

    def _heard(self, text: str) -> None:
        *whole, self._begun = (self._begun + text).split("\n")
        self._begun = self._begun[-_MAX_CHARACTERS:]
        for line in whole:
            # One that is written again and again (a progress bar) says what the clock says.
            if line.strip() and "\r" not in line:
                self._keep(line[:_MAX_CHARACTERS])

    def _keep(self, line: str) -> None:
        steps = self._steps()
        if steps and len(self.lines) < _MAX_LINES:
            self.lines.append((steps, line))
