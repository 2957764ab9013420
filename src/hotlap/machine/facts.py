"""What is known of a machine before anybody judges it: frozen values, each None where it could not be read."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hotlap.record import Cores, Driver, Figure, Gpu, Machine, TorchBuild


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
    cores: Cores
    memory_limit_bytes: int | None = None
    """Of the tightest cgroup; None without one."""
    shm_bytes: int | None = None
    """Size of /dev/shm, used or not."""
    clocks: Clocks = Clocks()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that decide about threads, allocators and GPUs."""
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
    figures: tuple[Figure, ...] = ()
    under_load: Mapping[str, Gpu] = field(default_factory=dict)
    """"cuda:0" -> what its driver said while it multiplied matrices."""
