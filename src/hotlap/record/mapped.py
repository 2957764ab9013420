"""A file that is also memory: what a process writes there is there for others, and when it is gone."""

import mmap
import os
from pathlib import Path


def mapped(path: Path, size: int) -> mmap.mmap:
    """The first `size` bytes of a file; it is made, and filled up with zeros, where there is none or a shorter one.

    Raises:
        OSError: it cannot be opened, or there is no room for it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.fstat(descriptor).st_size < size:
            os.ftruncate(descriptor, size)
            # Writing to a mapped page that has no room on the disk would end the training (SIGBUS).
            os.posix_fallocate(descriptor, 0, size)
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)
