"""What this process may still take: memory and cores that the machine has free, and what its cgroup leaves of it."""

import os

import psutil

from hotlap import cgroups

# What is left untouched: other processes, the allocator's slack, and the training itself go on growing.
SHARE_OF_FREE = 0.8


def available_bytes() -> int:
    """Free for this process now, cgroup limits considered."""
    free = int(psutil.virtual_memory().available)
    left = cgroups.memory_left_bytes()
    return free if left is None else min(free, left)


def usable_cores() -> int:
    """Cores that this process may be on at once, at least 1."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min(allowed, cgroups.cpu_quota())))
