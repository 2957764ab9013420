"""The record of a machine: what it can do at best, what is wrong with it, and how a step scales with threads.

Shape letter: C counts of threads. Rates are per second, times in seconds, memory in bytes.
"""

from dataclasses import dataclass
from enum import StrEnum

from hotlap.record.moments import Interval
from hotlap.record.plan import SCHEMA


class Unit(StrEnum):
    """What a figure counts."""

    FLOP_PER_S = "FLOP/s"
    """Floating-point operations; a multiplication and an addition are two."""
    BYTE_PER_S = "B/s"
    SECOND = "s"


class Weight(StrEnum):
    """How much a complaint can cost."""

    BROKEN = "broken"
    """Something that was paid for does not work at all."""
    COSTLY = "costly"
    """Training can be slower by a factor, or end with an error."""
    MINOR = "minor"
    """Some percent, or only under some conditions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One thing that a device can do at best, as measured."""

    name: str
    """"matmul", "read", "copy", "triad", "operator", "operator-autograd", "launch", "to-device" or "to-host"."""
    device: str
    """"cpu", "cuda:0", ..."""
    variant: str = ""
    """What else tells it from figures of this name: a dtype, "pinned 1 MiB", ..."""
    unit: Unit
    value: Interval
    """Median of the repeats, and the 95% interval of that median: this process, in this minute."""
    spread: float
    """Half of the distance between the quartiles of the repeats, as a part of the median."""
    threads: int | None = None
    """CPU threads that took part; None where they do not matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """Something that is wrong with the machine, as far as training is concerned. Each text is one plain sentence."""

    code: str
    weight: Weight
    what: str
    """What is so, with the numbers."""
    cost: str
    """What it costs."""
    fix: str
    """What to do about it."""
    about: str = ""
    """The device concerned, where there are several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchDevice:
    """A GPU as torch sees it."""

    name: str
    capability: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchBuild:
    """The torch that is installed, as a process of its own found it."""

    version: str
    """"2.13.0+cpu"."""
    cuda: str | None = None
    """CUDA that it was built for, "12.8"; None for a build without."""
    hip: str | None = None
    """ROCm that it was built for."""
    arch_list: tuple[str, ...] = ()
    """"sm_80", "compute_90", ...: what the build holds code for; empty where that is unknown."""
    num_threads: int | None = None
    """As it chose itself in this environment."""
    devices: tuple[TorchDevice, ...] = ()
    """That it can use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One NVIDIA GPU as its driver saw it at one moment. None: unknown."""

    name: str
    slowdowns: tuple[str, ...] = ()
    """Reasons for lower clocks that are active: "hw_slowdown", "hw_thermal_slowdown", ..."""
    used_bytes: int | None = None
    utilisation: float | None = None
    """Part of the last moment in which a kernel ran, in [0, 1]."""
    processes: tuple[int, ...] = ()
    """Ids of processes that compute on it. A container sees none of those outside of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """NVIDIA's driver."""

    version: str
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where the study ran, as far as levers and rules must know. None: could not be read."""

    system: str
    """"Linux", "Darwin", "Windows"."""
    processor: str
    num_cores: int
    """Logical processors of the machine."""
    usable_cores: float
    """What this process may use: affinity and cgroup quota considered."""
    physical_cores: int | None = None
    """Cores behind the processors that its affinity leaves: hyper-threads of one core count once."""
    memory_bytes: int
    available_bytes: int
    """Free for this process now, cgroup limit considered."""
    shm_bytes: int | None
    """Free in /dev/shm."""
    huge_pages: str | None
    """Transparent huge pages: "always", "madvise" or "never"."""
    libc: str
    """"glibc 2.36", ..."""
    cpu_flags: tuple[str, ...] = ()
    """Those that matter here: "avx2", "avx512f", "avx512_bf16", "amx_bf16", ..."""
    gpus: tuple[str, ...] = ()
    compiler: str | None = None
    """C++ compiler that torch.compile would find, with Python's headers beside it."""
    memory_limit_bytes: int | None = None
    """What the user lets caches, batches on their way and workers take; None: nothing was said (80% of what is
    free)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a process with torch in it found out about a machine."""

    torch: TorchBuild
    figures: tuple[Figure, ...] = ()
    failures: tuple[str, ...] = ()
    """What could not be measured, and why: one sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """What `hotlap machine` hands over."""

    machine: Machine
    created: str
    """When the figures were measured: ISO 8601, UTC."""
    schema: int = SCHEMA
    hotlap: str = ""
    torch: TorchBuild | None = None
    figures: tuple[Figure, ...] = ()
    complaints: tuple[Complaint, ...] = ()
    """Weightiest first."""
    quick: bool = False
    """Figures are of fewer and shorter repeats."""
    elapsed_s: float = 0.0
    """What measuring took."""
    notes: tuple[str, ...] = ()
    """About the figures: noise, and what could not be measured, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTime:
    """A step at one number of threads."""

    threads: int
    step_s: Interval
    """Median over blocks of steps, with its 95% interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The same step at several numbers of threads."""

    times: tuple[ThreadTime, ...]
    """(C,) by rising number of threads."""
    why: str = ""
    """What further threads bring, and which number of them is best; ranges are from the ends of `times`' intervals."""
    fewer: str = ""
    """That fewer threads than the script's own are clearly faster, and what speaks against it; empty where they are
    not."""
    notes: tuple[str, ...] = ()
