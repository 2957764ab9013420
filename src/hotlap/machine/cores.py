"""/sys and the scheduler -> processors as this process may use them: cores, hyper-threads."""

import os
import re
from collections.abc import Collection
from pathlib import Path

import psutil

from hotlap import cgroups
from hotlap.cgroups import text
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


def numbers(listed: str | None) -> frozenset[int]:
    """The kernel's lists of processors: "0-2,7" -> {0, 1, 2, 7}."""
    found: set[int] = set()
    for part in (listed or "").strip().split(","):
        if ends := re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part):
            found.update(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return frozenset(found)
