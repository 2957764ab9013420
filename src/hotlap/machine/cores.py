"""/sys and the scheduler -> processors as this process may use them: cores, hyper-threads."""

import os
from collections.abc import Collection
from pathlib import Path

import psutil

from hotlap import cgroups
from hotlap.machine.files import numbers, text
from hotlap.record import Cores


def look(*, root: Path = Path("/"), allowed: Collection[int] | None = None) -> Cores:
    """Processors of this process. `root` and `allowed` (their numbers) are for tests."""
    logical = psutil.cpu_count() or 1
    if allowed is None:
        allowed = os.sched_getaffinity(0)
    quota = cgroups.cpu_quota(root=root / "sys/fs/cgroup", own=root / "proc/self/cgroup")
    return Cores(
        logical=max(logical, len(allowed)),
        allowed=len(allowed),
        quota=None if quota == float("inf") else quota,
        physical=_physical(root / "sys/devices/system/cpu", allowed),
    )


def _physical(cpus: Path, allowed: Collection[int]) -> int | None:
    """Cores behind these processors; None where the topology is not told."""
    found = set()
    for cpu in allowed:
        topology = cpus / f"cpu{cpu}/topology"
        siblings = numbers(text(topology / "core_cpus_list") or text(topology / "thread_siblings_list"))
        if not siblings:
            return None
        found.add(siblings)
    return len(found)
