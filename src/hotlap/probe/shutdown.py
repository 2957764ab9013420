"""How a process under a plan comes to its end: by our will, by the script's, by an error, or in a child of it."""

import os
import re
import sys
import time
import traceback
from typing import TYPE_CHECKING, NoReturn

from hotlap.probe import run_builder, unseen
from hotlap.probe.bootstrap import tell_why_not
from hotlap.probe.procfs import hotlap_is_gone
from hotlap.record import Status

if TYPE_CHECKING:
    from hotlap.probe.session import Session

# A process whose record is written waits for so long to be ended by hotlap; longer than hotlap waits for its peers.
_LEAVE_S = 30.0

# How often it looks whether anybody will.
_LOOK_S = 0.1

_MOST_CHARACTERS = 300
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def _words_of(error: BaseException) -> str:
    """On one line, without colours, and not more than a sentence can hold: the script prints all of it."""
    words = " ".join(_COLOURS.sub("", f"{type(error).__name__}: {error}").split())
    return words if len(words) <= _MOST_CHARACTERS else words[:_MOST_CHARACTERS].rpartition(" ")[0] + " [...]"


def _opened_by(error: BaseException) -> str:
    """Torch's function that could not open what another process had sent; empty where the error is another.

    What the script prints would say so as well, but the signal that a worker has died may break that off.
    """
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename.endswith("multiprocessing/reductions.py"):
            return f", in {frame.f_code.co_name}"
    return ""


class Shutdown:
    """Writes the record once, in the process that trains."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._pid = os.getpid()
        self.finished = False
        """The record is written, or another process writes it: steps do not count any more."""
        self.error: str | None = None
        """What the script raised."""
        self.is_fork = False
        """This process was forked from one that had imported torch, and has none of its threads."""

    def failed(self, error: BaseException) -> None:
        """The script raised; it goes on to show its own traceback."""
        self.error = _words_of(error) + _opened_by(error)

    def script_ends(self) -> None:
        """The interpreter is about to leave: write what is known."""
        if self.finished or os.getpid() != self._pid:
            return
        self.finished = True
        self._session.thread.retire()
        self._session.guard(self._session.account, "the last steps")(now=time.perf_counter())
        # A training for real ends here; one of ours may still be asked for items, its script will not notice.
        sample = self.error is None and not self._session.plan.whole
        self._write(Status.CRASHED if self.error else Status.ENDED, sample=sample)

    def forked(self) -> None:
        """We are in a child now. It may be the one that trains; once its parent has trained, it is not."""
        self._pid, self.is_fork = os.getpid(), True
        self.finished = self.finished or self._session.steps > 0
        if self.finished:
            self._session.thread.retire()
        else:
            self._session.thread.forget()
        self._session.windows.forked()

    def child_ends(self, code: int) -> None:
        """A process that the script started with multiprocessing, and that may have trained, is about to leave."""
        if code and self.error is None:
            self.error = f"a process that the script started left with exit code {code}"
        if self._session.steps:
            self.script_ends()

    def finish(self, status: Status) -> NoReturn:
        """Write the record and leave at once: no `finally`, no checkpoint, no atexit hook of the script runs."""
        self.finished = True
        unseen.from_here_on()
        self._write(status, sample=status is not Status.CRASHED)
        self._session.left()
        self.leave(wait_s=_LEAVE_S)

    def _write(self, status: Status, *, sample: bool) -> None:
        """Where that fails (a full disk, hotlap has gone) the script still ends as it does without us."""
        try:
            run_builder.write(self._session, status, sample=sample)
        except Exception as error:
            tell_why_not(self._session.out, f"hotlap could not write what it recorded: {type(error).__name__}: {error}")

    def leave(self, *, wait_s: float = 0.0) -> NoReturn:
        """Go, now or when hotlap ends all processes of the command, within `wait_s` seconds."""
        for stream in (sys.stdout, sys.stderr):
            # A closed or broken stream of the script's must not keep the process from leaving.
            try:
                stream.flush()
            except Exception:
                continue
        # Hotlap ends all processes of the command at once. If this one left first, its peers would fail in their next
        # collective, and a shell script would go on as if the training had been completed.
        deadline = time.monotonic() + wait_s
        while os.environ.get("HOTLAP_PARENT") and time.monotonic() < deadline and not hotlap_is_gone():
            time.sleep(_LOOK_S)
        os._exit(0)
