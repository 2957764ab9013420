"""Standard input of the user's command: every execution reads the same, from its beginning."""

import contextlib
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from hotlap.launch.readable import readable

# A pipe that has given nothing for so long is taken to be one that nobody writes to.
_PATIENCE_S = 1.0

_MAX_BYTES = 1 << 30


class StandardInput:
    """A file is opened anew for each execution, a pipe is kept in a file first; a terminal is not read from."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._path: Path | None = None
        self._ours = False
        try:
            source = sys.stdin.fileno() if descriptor is None else descriptor
            mode = os.fstat(source).st_mode
        except (OSError, ValueError, AttributeError):
            return
        if stat.S_ISREG(mode) and Path(f"/proc/self/fd/{source}").exists():
            self._path = Path(os.readlink(f"/proc/self/fd/{source}"))
        elif stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            self._keep(source)

    def _keep(self, source: int) -> None:
        chunks: list[bytes] = []
        size, deadline = 0, time.monotonic() + _PATIENCE_S
        while size < _MAX_BYTES and readable([source], max(0.0, deadline - time.monotonic())):
            chunk = os.read(source, 1 << 16)
            if not chunk:
                break
            chunks.append(chunk)
            size += len(chunk)
            deadline = time.monotonic() + _PATIENCE_S
        if chunks:
            descriptor, name = tempfile.mkstemp(prefix="hotlap-stdin-")
            with os.fdopen(descriptor, "wb") as file:
                file.writelines(chunks)
            self._path, self._ours = Path(name), True

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        """A descriptor at the beginning, closed at the end of the context."""
        descriptor = os.open(self._path or os.devnull, os.O_RDONLY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Remove what was kept."""
        if self._ours and self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None
