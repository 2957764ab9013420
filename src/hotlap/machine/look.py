"""The system's own files and calls -> Machine. Reads, never changes; works without torch."""

import os
import platform
import re
import shutil
import sysconfig
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import psutil

from hotlap import cgroups
from hotlap.cgroups import text
from hotlap.machine import nvidia
from hotlap.record import Driver, Machine

# /proc/cpuinfo's names of what decides between kernels. "bf16" is Arm's.
_FLAGS = ("avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16", "bf16", "sve")


def look(*, root: Path = Path("/"), allowed: Collection[int] | None = None, driver: Driver | None = None) -> Machine:
    """What levers and rules must know of this machine, as this process may use it.

    Arguments:
        root: for tests.
        allowed: numbers of the processors that this process may use; None asks for them.
        driver: NVIDIA's, if somebody asked it already; it takes seconds to answer where no program holds the GPUs.
    """
    allowed = os.sched_getaffinity(0) if allowed is None else allowed
    driver = driver or nvidia.ask()
    flags = (_cpuinfo(root, ("flags", "features")) or "").split()
    return Machine(
        system=platform.system(),
        processor=_cpuinfo(root, ("model name",)) or platform.processor() or platform.machine(),
        num_cores=max(psutil.cpu_count() or 1, len(allowed)),
        usable_cores=min(float(len(allowed)), quota(root)),
        physical_cores=_physical(root / "sys/devices/system/cpu", allowed),
        memory_bytes=int(psutil.virtual_memory().total),
        available_bytes=cgroups.available_bytes(root=root / "sys/fs/cgroup", own=root / "proc/self/cgroup"),
        shm_bytes=shm.free if (shm := shared_memory(root)) else None,
        huge_pages=_in_brackets(text(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        libc=" ".join(platform.libc_ver()).strip(),
        cpu_flags=tuple(flag for flag in _FLAGS if flag in flags),
        gpus=tuple(gpu.name for gpu in driver.gpus) if driver else (),
        compiler=_compiler(),
    )


def quota(root: Path = Path("/")) -> float:
    """Cores that the tightest cgroup quota grants; infinite without one."""
    return cgroups.cpu_quota(root=root / "sys/fs/cgroup", own=root / "proc/self/cgroup")


def _physical(cpus: Path, allowed: Collection[int]) -> int | None:
    """Cores behind these processors; None where the topology is not told."""
    topologies = [cpus / f"cpu{cpu}/topology" for cpu in allowed]
    listed = [text(one / "core_cpus_list") or text(one / "thread_siblings_list") for one in topologies]
    return len(set(listed)) if all(listed) else None


def _in_brackets(line: str | None) -> str | None:
    """The chosen word: "always [madvise] never" -> "madvise"."""
    found = re.search(r"\[([^\[\]]*)\]", line or "")
    return found[1] if found else None


def _compiler() -> str | None:
    """As torch's Inductor looks for it; it includes Python.h in what it compiles."""
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        return None
    names = (os.environ.get("CXX", ""), "g++", "clang++")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def _cpuinfo(root: Path, names: Iterable[str]) -> str | None:
    for line in (text(root / "proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() in names:
            return value.strip()
    return None


def shared_memory(root: Path) -> Any:
    """Total, used and free bytes of /dev/shm; None without one."""
    try:
        return shutil.disk_usage(root / "dev/shm")
    except OSError:
        return None
