"""Reads a stream to its end and keeps its beginning and its end: a script may print gigabytes."""

import threading
from collections import deque
from typing import IO

_HEAD = 16 * 1024
_TAIL = 48 * 1024
_CHUNK = 1 << 16


class Tail:
    """Drains `stream` in a thread of its own, so that the script never waits for its reader."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._head = b""
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped = 0
        self._thread = threading.Thread(target=self._drain, daemon=True, name="hotlap-tail")
        self._thread.start()

    def _drain(self) -> None:
        read = getattr(self._stream, "read1", self._stream.read)
        while chunk := read(_CHUNK):
            missing = _HEAD - len(self._head)
            if missing > 0:
                self._head += chunk[:missing]
                chunk = chunk[missing:]
            self._tail.append(chunk)
            self._tail_size += len(chunk)
            while self._tail and self._tail_size - len(self._tail[0]) >= _TAIL:
                first = self._tail.popleft()
                self._tail_size -= len(first)
                self._dropped += len(first)
        self._stream.close()

    def text(self) -> str:
        """What was kept; call after the process has ended."""
        # A grandchild that outlives the process may hold the pipe open.
        self._thread.join(timeout=2.0)
        gap = f"\n[... {self._dropped} bytes left out ...]\n".encode() if self._dropped else b""
        return (self._head + gap + b"".join(self._tail)).decode("utf-8", "replace")
