"""The system -> what is known of a machine before anybody judges it: each None where it could not be read."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hotlap import cgroups
from hotlap.cgroups import text
from hotlap.machine import nvidia
from hotlap.machine.look import look, quota, shared_memory
from hotlap.record import Driver, Machine, TorchBuild

# Variables that a check looks at; no others are kept.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
VARIABLES = (*THREAD_VARIABLES, "CUDA_VISIBLE_DEVICES")
_NVIDIA = "0x10de"
# Base class of the PCI specification: display controllers (VGA, 3D, and others).
_DISPLAY = "0x03"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """How fast the processors may run."""

    governor: str | None = None
    """"performance", "powersave", "schedutil", ..."""
    driver: str | None = None
    """"intel_pstate", "amd-pstate-epp", "acpi-cpufreq": what `governor` means depends on it."""
    preference: str | None = None
    """Energy preference where the processor itself decides: "performance", "balance_power", ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that checks look at."""

    machine: Machine
    allowed: int
    """Logical processors that the affinity of this process leaves."""
    quota: float = float("inf")
    """Cores that the tightest cgroup quota grants."""
    memory_limit_bytes: int | None = None
    """Of the tightest cgroup; None without one."""
    shm_bytes: int | None = None
    """Size of /dev/shm, used or not."""
    clocks: Clocks = Clocks()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that decide about threads and GPUs."""
    load: float | None = None
    """Processes that wanted a processor, mean of the last minute."""
    container: bool = False
    """We are inside of one, of any kind."""
    nvidia_cards: int = 0
    """NVIDIA display adapters and accelerators on the PCI bus, driver or not."""
    nvidia_nodes: bool = False
    """/dev/nvidia0 is there: this process may reach a card."""
    driver: Driver | None = None
    torch: TorchBuild | None = None
    """None until a process of its own has looked."""


def gather(*, root: Path = Path("/"), environment: Mapping[str, str] | None = None) -> Facts:
    """All that can be read without torch. `root` and `environment` are for tests."""
    environment = os.environ if environment is None else environment
    driver = nvidia.ask()
    return Facts(
        machine=look(root=root, driver=driver),
        allowed=len(os.sched_getaffinity(0)),
        quota=quota(root),
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
