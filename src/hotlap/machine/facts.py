"""What is known of a machine before anybody judges it: frozen values, each None where it could not be read."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hotlap.machine.nvidia import Driver
from hotlap.record import Cores, Figure, Machine, TorchBuild, UnderLoad


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory, in bytes."""

    limit_bytes: int | None = None
    """Of the tightest cgroup; None without one."""
    swap_used_bytes: int = 0
    shm_bytes: int | None = None
    """Size of /dev/shm, used or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`ulimit`, soft; None without a limit."""

    open_files: int | None = None
    open_files_hard: int | None = None
    locked_bytes: int | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """How fast the processors may run."""

    governor: str | None = None
    """"performance", "powersave", "schedutil", ..."""
    driver: str | None = None
    """"intel_pstate", "amd-pstate-epp", "acpi-cpufreq": what `governor` means depends on it."""
    preference: str | None = None
    """Energy preference where the processor itself decides: "performance", "balance_power", ..."""
    turbo: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that checks look at."""

    machine: Machine
    cores: Cores
    memory: Memory = Memory()
    limits: Limits = Limits()
    clocks: Clocks = Clocks()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that decide about threads, allocators, GPUs and containers."""
    allocator: str | None = None
    """"glibc", "jemalloc", "tcmalloc" or "mimalloc": what a process of this environment uses."""
    load: float | None = None
    """Processes that wanted a processor, mean of the last minute."""
    container: bool = False
    """We are inside of one, of any kind."""
    nvidia_container: str | None = None
    """Release of NVIDIA's PyTorch container that we are in, "25.06"."""
    nvidia_cards: int = 0
    """NVIDIA display adapters and accelerators on the PCI bus, driver or not."""
    nvidia_nodes: bool = False
    """/dev/nvidia0 is there: this process may reach a card."""
    driver: Driver | None = None
    torch: TorchBuild | None = None
    """None until a process of its own has looked."""
    figures: tuple[Figure, ...] = ()
    under_load: tuple[UnderLoad, ...] = ()
