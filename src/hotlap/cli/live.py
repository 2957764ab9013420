"""What `hotlap tune` shows while it works: a status line, and above it each section as soon as it is known."""

import time
from collections.abc import Callable
from typing import Self, TextIO

from rich.console import RenderableType
from rich.live import Live as RichLive
from rich.text import Text

from hotlap.cli.console import console
from hotlap.report.clean import clean_line
from hotlap.report.terminal import print_on
from hotlap.units import duration

# The line is drawn by a thread of the process that also hands the turns of a trial around, on a machine that is being
# measured: once a second is enough for a clock, and there is no spinner.
REDRAWS_PER_S = 1


class Live:
    """Progress on `stream`. On a terminal the last line says what is being done now; elsewhere each change is a line.

    Args:
        stream: where to write. Escape codes are written to terminals only.
        quiet: nothing is shown at all.
        verbose: on a terminal too each change is a line, which stays.
        color: as `--color` has it.
        budget_s: time that the study may take; None: it is not told.
        clock: seconds, from any start.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        quiet: bool = False,
        verbose: bool = False,
        color: str = "auto",
        budget_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._quiet = quiet
        self._budget_s = budget_s
        self._clock = clock
        self._start_s = clock()
        self._console = console(stream, color)
        self._text = ""
        self._animated = stream.isatty() and not verbose and not self._console.is_dumb_terminal
        self._line = self._status_line() if self._animated else None

    def go_on(self, spent_s: float) -> None:
        """So much of the time was used before."""
        self._start_s -= spent_s

    def allow(self, budget_s: float) -> None:
        """The study may take so long, from now on. Where a budget is not told, it still is not."""
        self._budget_s = None if self._budget_s is None else budget_s

    def changed(self, study: object, part: str) -> None:
        """As an observer of a study: a part of it is shown only where somebody calls `show`."""

    def doing(self, text: str) -> None:
        """`text` says what is being done from now on. The same text again changes nothing."""
        text = clean_line(text)
        if self._quiet or text == self._text:
            return
        self._text = text
        if self._line is None:
            self._console.print(self._told())
        elif self._line.is_started:
            self._line.refresh()
        else:
            self._line.start(refresh=True)

    def show(self, *sections: RenderableType) -> None:
        """Print finished sections above the status line."""
        if not self._quiet:
            print_on(self._console, sections)

    def close(self) -> None:
        """Take the status line away. Nothing may be shown afterwards; closing again does no harm."""
        if self._line is not None:
            self._line.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _status_line(self) -> RichLive:
        return RichLive(
            console=self._console,
            get_renderable=self._told,
            refresh_per_second=REDRAWS_PER_S,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def _told(self) -> Text:
        """The time, and what is being done, on one line."""
        elapsed = _whole_seconds(self._clock() - self._start_s)
        budget = f" of {_whole_seconds(self._budget_s)}" if self._budget_s is not None else ""
        text = Text.assemble((f"[{elapsed}{budget}]", "dim"), " ", self._text)
        text.no_wrap, text.overflow = self._animated, "ellipsis" if self._animated else "fold"
        return text


def _whole_seconds(seconds: float) -> str:
    """A time in whole seconds: a status line that says 12.3 s pretends to a clock that it is not."""
    whole = max(0, round(seconds))
    return duration(whole) if whole >= 60 else f"{whole} s"
