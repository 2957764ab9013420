"""Standard input of the user's command: every execution reads the same, from its beginning."""

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

from hotlap.launch.descriptors import readable

# A pipe that has given nothing for so long is taken to be one that nobody writes to.
_PATIENCE_S = 1.0
# Of one that never ends (`yes`) so much is kept.
_MOST_BYTES = 1 << 30


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
