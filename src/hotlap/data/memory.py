"""How many bytes this process may still take: what the machine has free, and what its cgroup leaves of it."""

import psutil

from hotlap import cgroups

# What is left untouched: other processes, the allocator's slack, and the training itself go on growing.
SHARE_OF_FREE = 0.8


def available_bytes() -> int:
    """Free for this process now, cgroup limits considered."""
    free = int(psutil.virtual_memory().available)
    left = cgroups.memory_left_bytes()
    return free if left is None else min(free, left)
