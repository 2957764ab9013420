"""Reads a stream to its end and keeps what came last: a script may print gigabytes."""

import threading
from typing import IO

_KEPT = 48 * 1024
_CHUNK = 1 << 16


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
