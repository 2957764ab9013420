"""Memory of this process and all its children, shared pages counted once."""

import psutil


def tree_bytes() -> int:
    """Sum of the proportional set sizes (PSS; Linux) of the process tree; of the resident ones elsewhere.

    A forked worker shares most of its pages with this process: its resident size counts them again, its PSS does not.
    """
    own = psutil.Process()
    return sum(map(_process_bytes, [own, *own.children(recursive=True)]))


def _process_bytes(process: psutil.Process) -> int:
    try:
        found = process.memory_full_info()
    except psutil.Error:  # it ended just now
        return 0
    return int(getattr(found, "pss", 0) or found.rss)
