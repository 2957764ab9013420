"""Memory of this process and all its children, shared pages counted once."""

from collections.abc import Iterable

import psutil


def tree_bytes() -> int:
    """Sum of the proportional set sizes (PSS; Linux) of the process tree; of the resident ones elsewhere.

    A forked worker shares most of its pages with this process: its resident size counts them again, its PSS does not.
    """
    own = psutil.Process()
    return sum(map(_process_bytes, [own, *own.children(recursive=True)]))


def own_bytes(pids: Iterable[int | None]) -> int:
    """Memory that would be free without these processes: pages that they share with nobody (USS)."""
    total = 0
    for pid in pids:
        try:
            total += int(psutil.Process(pid).memory_full_info().uss)
        except (psutil.Error, AttributeError):  # it ended just now
            continue
    return total


def _process_bytes(process: psutil.Process) -> int:
    try:
        found = process.memory_full_info()
    except psutil.Error:  # it ended just now
        return 0
    return int(getattr(found, "pss", 0) or found.rss)
