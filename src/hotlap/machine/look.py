"""The system's own files and calls -> Machine. Reads, never changes; works without torch."""

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from hotlap import cgroups
from hotlap.record import Machine

# /proc/cpuinfo's names of what decides between kernels. "bf16" is Arm's.
_FLAGS = ("avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16", "bf16", "sve")


def look(*, root: Path = Path("/")) -> Machine:
    """What levers and rules must know of this machine, as this process may use it. `root` is for tests."""
    import psutil

    memory = psutil.virtual_memory()
    groups = {"root": root / "sys/fs/cgroup", "own": root / "proc/self/cgroup"}
    limit = cgroups.memory_left_bytes(**groups)
    cores = psutil.cpu_count() or 1
    return Machine(
        system=platform.system(),
        processor=_processor(root),
        num_cores=cores,
        usable_cores=min(float(cores), _affinity(cores), cgroups.cpu_quota(**groups)),
        memory_bytes=int(memory.total),
        available_bytes=int(memory.available if limit is None else min(memory.available, limit)),
        shm_bytes=_free(root / "dev/shm"),
        huge_pages=_huge_pages(root),
        libc=" ".join(platform.libc_ver()).strip() if sys.platform == "linux" else "",
        cpu_flags=_cpu_flags(root),
        gpus=_gpus(),
        allocators=_allocators(),
        compiler=_compiler(),
    )


# The sonames that Linux distributions ship.
_ALLOCATORS = ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libtcmalloc.so.4")


def _allocators() -> tuple[str, ...]:
    """Those that the dynamic loader's cache knows, so that LD_PRELOAD finds them by name."""
    if sys.platform != "linux":
        return ()
    try:
        listed = subprocess.run(
            ["/sbin/ldconfig", "-p"], capture_output=True, text=True, timeout=10, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    known = {line.split()[0] for line in listed.splitlines() if "=>" in line}
    return tuple(name for name in _ALLOCATORS if name in known)


def _compiler() -> str | None:
    """As torch's Inductor looks for it; it includes Python.h in what it compiles."""
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        return None
    names = (os.environ.get("CXX", ""), "g++", "clang++")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return None


def _cpuinfo(root: Path, names: Iterable[str]) -> str | None:
    for line in (_read(root / "proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() in names:
            return value.strip()
    return None


def _processor(root: Path) -> str:
    name = _cpuinfo(root, ("model name",))
    return name or platform.processor() or platform.machine()


def _cpu_flags(root: Path) -> tuple[str, ...]:
    present = (_cpuinfo(root, ("flags", "features")) or "").split()
    return tuple(flag for flag in _FLAGS if flag in present)


def _affinity(cores: int) -> float:
    if not hasattr(os, "sched_getaffinity"):
        return float(cores)
    return float(len(os.sched_getaffinity(0)))


def _free(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _huge_pages(root: Path) -> str | None:
    """The word in brackets: "always [madvise] never"."""
    text = _read(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""
    start, end = text.find("["), text.find("]")
    return text[start + 1 : end] if 0 <= start < end else None


def _gpus() -> tuple[str, ...]:
    """Names that NVIDIA's driver gives; empty without a card, a driver or its Python package."""
    try:
        pynvml: Any = import_module("pynvml")
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return tuple(str(pynvml.nvmlDeviceGetName(handle)) for handle in handles)
    finally:
        pynvml.nvmlShutdown()
