"""The system -> Facts. Reads, never changes; judging what was read is the affair of `checks`."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from hotlap import cgroups
from hotlap.machine import cores, nvidia
from hotlap.machine.facts import Clocks, Facts, Limits, Memory
from hotlap.machine.files import number, text
from hotlap.machine.look import look

# Variables that a check looks at; no others are kept.
VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "KMP_AFFINITY",
    "GOMP_CPU_AFFINITY",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "LD_PRELOAD",
    "GLIBC_TUNABLES",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING",
    "NVIDIA_PYTORCH_VERSION",
    "NVIDIA_VISIBLE_DEVICES",
)
# Name in the path of a library -> allocator. https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
_ALLOCATORS = {"libjemalloc": "jemalloc", "libtcmalloc": "tcmalloc", "libmimalloc": "mimalloc"}
_NVIDIA = "0x10de"
# Base class of the PCI specification: display controllers (VGA, 3D, and others).
_DISPLAY = "0x03"


def gather(*, root: Path = Path("/"), environment: Mapping[str, str] | None = None) -> Facts:
    """All that can be read without torch. `root` and `environment` are for tests."""
    environment = os.environ if environment is None else environment
    driver = nvidia.ask()
    return Facts(
        machine=look(root=root, driver=driver),
        cores=cores.look(root=root),
        memory=_memory(root),
        limits=_limits(),
        clocks=_clocks(root / "sys/devices/system/cpu"),
        environment={name: environment[name] for name in VARIABLES if name in environment},
        allocator=_allocator(root),
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        container=_in_container(root, environment),
        nvidia_container=environment.get("NVIDIA_PYTORCH_VERSION"),
        nvidia_cards=_cards(root / "sys/bus/pci/devices"),
        nvidia_nodes=(root / "dev/nvidia0").exists() or (root / "dev/dxg").exists(),
        driver=driver,
    )


def _memory(root: Path) -> Memory:
    import psutil

    limit = cgroups.memory_limit_bytes(root=root / "sys/fs/cgroup", own=root / "proc/self/cgroup")
    swap_used = int(psutil.swap_memory().used) if sys.platform == "linux" else 0
    return Memory(limit_bytes=limit, swap_used_bytes=swap_used, shm_bytes=_size(root / "dev/shm"))


def _size(folder: Path) -> int | None:
    try:
        found = os.statvfs(folder)
    except (OSError, AttributeError):
        return None
    return found.f_blocks * found.f_frsize


def _limits() -> Limits:
    if sys.platform == "win32":
        return Limits()
    import resource

    def soft(kind: str, place: int = 0) -> int | None:
        value = resource.getrlimit(getattr(resource, kind))[place] if hasattr(resource, kind) else -1
        return None if value in (-1, resource.RLIM_INFINITY) else int(value)

    return Limits(
        open_files=soft("RLIMIT_NOFILE"),
        open_files_hard=soft("RLIMIT_NOFILE", 1),
        locked_bytes=soft("RLIMIT_MEMLOCK"),
        processes=soft("RLIMIT_NPROC"),
    )


def _clocks(cpus: Path) -> Clocks:
    def word(name: str) -> str | None:
        return (text(cpus / name) or "").strip() or None

    no_turbo, boost = number(cpus / "intel_pstate/no_turbo"), number(cpus / "cpufreq/boost")
    return Clocks(
        governor=word("cpu0/cpufreq/scaling_governor"),
        driver=word("cpu0/cpufreq/scaling_driver"),
        preference=word("cpu0/cpufreq/energy_performance_preference"),
        turbo=not no_turbo if no_turbo is not None else (bool(boost) if boost is not None else None),
    )


def _allocator(root: Path) -> str | None:
    """Of this very process: its environment, LD_PRELOAD above all, is what a training started here would get."""
    maps = text(root / "proc/self/maps")
    if maps is None:
        return None
    for library, name in _ALLOCATORS.items():
        if library in maps:
            return name
    return "glibc" if "libc.so.6" in maps or "/libc-2" in maps else None


def _in_container(root: Path, environment: Mapping[str, str]) -> bool:
    marks = (root / ".dockerenv", root / "run/.containerenv")
    return any(mark.exists() for mark in marks) or bool(environment.keys() & {"KUBERNETES_SERVICE_HOST", "container"})


def _cards(devices: Path) -> int:
    return sum(
        (text(device / "vendor") or "").strip() == _NVIDIA and (text(device / "class") or "").startswith(_DISPLAY)
        for device in devices.glob("*")
    )
