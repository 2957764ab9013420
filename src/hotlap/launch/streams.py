"""What the parent waits for and reads: descriptors, what a command prints, and the standard input that it gets."""

import contextlib
import os
import select
import stat
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from textwrap import shorten
from typing import IO

# Of what a command prints so much is kept: a script may print gigabytes.
_KEPT = 48 * 1024
_CHUNK = 1 << 16
# And of what it said last so much is shown in a sentence.
_MOST_CHARACTERS = 500

# A pipe that has given nothing for so long is taken to be one that nobody writes to.
_PATIENCE_S = 1.0
# Of one that never ends (`yes`) so much is kept.
_MOST_BYTES = 1 << 30


def readable(descriptors: Iterable[int], seconds: float) -> list[int]:
    """Waits until one of them can be read or was closed at the other end, `seconds` at most.

    Not `select.select`, which knows the first 1,024 descriptors of a process only.
    """
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(1e3 * seconds)]


def end_of(pid: int) -> int | None:
    """A descriptor that can be read when the process has ended; None where the system has none (before Linux 5.3)."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


class Tail:
    """Drains `stream` in a thread of its own, so that the script never waits for its reader."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._kept = b""
        self._thread = threading.Thread(target=self._drain, daemon=True, name="hotlap-tail")
        self._thread.start()

    def _drain(self) -> None:
        read = getattr(self._stream, "read1", self._stream.read)
        while chunk := read(_CHUNK):
            self._kept = (self._kept + chunk)[-_KEPT:]
        self._stream.close()

    def text(self) -> str:
        """What was kept; call after the process has ended."""
        # A grandchild that outlives the process may hold the pipe open.
        self._thread.join(timeout=2.0)
        return self._kept.decode("utf-8", "replace")


def last_line(text: str) -> str:
    """What a program said last, cut to what is shown of it; "" where it said nothing."""
    lines = text.strip().splitlines()
    return shorten(lines[-1], _MOST_CHARACTERS, placeholder=" [...]") if lines else ""


class StandardInput:
    """A file is opened anew for each execution, a pipe is kept in a file first; a terminal is not read from."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._path = os.devnull
        self._kept: IO[bytes] | None = None
        try:
            source = sys.stdin.fileno() if descriptor is None else descriptor
            mode = os.fstat(source).st_mode
        except (OSError, ValueError, AttributeError):
            return
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            self._kept = tempfile.TemporaryFile()  # noqa: SIM115 - each execution opens it again
            while readable([source], _PATIENCE_S) and self._kept.tell() < _MOST_BYTES:
                if not self._kept.write(os.read(source, 1 << 16)):
                    break
            self._kept.flush()
            source = self._kept.fileno()
        elif not stat.S_ISREG(mode):
            return
        if os.path.exists(path := f"/proc/self/fd/{source}"):
            self._path = path

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        """A descriptor at the beginning, closed at the end of the context."""
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """What was kept is gone."""
        if self._kept is not None:
            self._kept.close()
