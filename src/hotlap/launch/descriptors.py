"""Waiting for what can be read, the end of a process included."""

import os
import select
from collections.abc import Iterable


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
