"""The system -> Facts. Reads, never changes; judging what was read is the affair of `checks`."""

import os
from collections.abc import Mapping
from pathlib import Path

from hotlap import cgroups
from hotlap.cgroups import text
from hotlap.machine import cores, nvidia
from hotlap.machine.facts import Clocks, Facts
from hotlap.machine.look import look, shared_memory

# Variables that a check looks at or a figure depends on; no others are kept.
VARIABLES = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    *("KMP_AFFINITY", "GOMP_CPU_AFFINITY", "OMP_PROC_BIND", "OMP_PLACES"),
    *("LD_PRELOAD", "GLIBC_TUNABLES"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING"),
)
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
        memory_limit_bytes=cgroups.memory_limit_bytes(root=root / "sys/fs/cgroup", own=root / "proc/self/cgroup"),
        shm_bytes=shm.total if (shm := shared_memory(root)) else None,
        clocks=_clocks(root / "sys/devices/system/cpu"),
        environment={name: environment[name] for name in VARIABLES if name in environment},
        load=os.getloadavg()[0],
        container=_in_container(root, environment),
        nvidia_cards=_cards(root / "sys/bus/pci/devices"),
        nvidia_nodes=(root / "dev/nvidia0").exists() or (root / "dev/dxg").exists(),
        driver=driver,
    )


def _clocks(cpus: Path) -> Clocks:
    def word(name: str) -> str | None:
        return (text(cpus / name) or "").strip() or None

    return Clocks(
        governor=word("cpu0/cpufreq/scaling_governor"),
        driver=word("cpu0/cpufreq/scaling_driver"),
        preference=word("cpu0/cpufreq/energy_performance_preference"),
    )


def _in_container(root: Path, environment: Mapping[str, str]) -> bool:
    marks = (root / ".dockerenv", root / "run/.containerenv")
    return any(mark.exists() for mark in marks) or bool(environment.keys() & {"KUBERNETES_SERVICE_HOST", "container"})


def _cards(devices: Path) -> int:
    return sum(
        (text(device / "vendor") or "").strip() == _NVIDIA and (text(device / "class") or "").startswith(_DISPLAY)
        for device in devices.glob("*")
    )
