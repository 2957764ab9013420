"""/sys and the scheduler -> processors as this process may use them: cores, hyper-threads, kinds."""

import os
from collections.abc import Collection
from pathlib import Path

import psutil

from hotlap import cgroups
from hotlap.machine.files import number, numbers, text
from hotlap.record import Cores

# Kinds of core differ by far more than what one core of a kind may be allowed above another (favoured cores of one
# kind differ by up to 8% in their highest clock; efficiency cores stay a fifth or more below).
_SAME_KIND = 0.85


def look(*, root: Path = Path("/"), allowed: Collection[int] | None = None) -> Cores:
    """Processors of this process. `root` and `allowed` (their numbers) are for tests."""
    logical = psutil.cpu_count() or 1
    if allowed is None:
        allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(logical)
    quota = cgroups.cpu_quota(root=root / "sys/fs/cgroup", own=root / "proc/self/cgroup")
    cpus = root / "sys/devices/system/cpu"
    cores = _by_core(cpus, allowed)
    return Cores(
        logical=max(logical, len(allowed)),
        allowed=len(allowed),
        quota=None if quota == float("inf") else quota,
        physical=len(cores) or None,
        fast=_fast(cpus, cores) if cores else None,
    )


def _by_core(cpus: Path, allowed: Collection[int]) -> list[int]:
    """One processor for each core; empty where the topology is not told."""
    firsts: dict[frozenset[int], int] = {}
    for cpu in sorted(allowed):
        topology = cpus / f"cpu{cpu}/topology"
        siblings = numbers(text(topology / "core_cpus_list") or text(topology / "thread_siblings_list"))
        if not siblings:
            return []
        firsts.setdefault(siblings, cpu)
    return list(firsts.values())


def _fast(cpus: Path, cores: list[int]) -> int:
    """Cores of the fastest kind: by the capacity that Arm kernels tell, or by the highest clock."""
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        speeds = [number(cpus / f"cpu{core}" / name) for core in cores]
        known = [speed for speed in speeds if speed]
        if len(known) == len(cores):
            return sum(speed >= _SAME_KIND * max(known) for speed in known)
    # Intel says which processors are efficiency cores even where clocks are hidden.
    efficient = numbers(text(cpus.parent.parent / "cpu_atom/cpus"))
    return sum(core not in efficient for core in cores) or len(cores)
