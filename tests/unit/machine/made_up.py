"""Facts of machines that nobody has, for tests of what is said about them."""

from dataclasses import replace

from hotlap.machine.facts import Facts
from hotlap.record import Driver, Figure, Gpu, Interval, Machine, TorchBuild, TorchDevice, Unit

GIB = 1 << 30

MACHINE = Machine(
    system="Linux",
    processor="a processor",
    num_cores=16,
    usable_cores=16.0,
    physical_cores=16,
    memory_bytes=64 * GIB,
    available_bytes=48 * GIB,
    shm_bytes=16 * GIB,
    huge_pages="madvise",
    libc="glibc 2.36",
)
HEALTHY = Facts(
    machine=MACHINE,
    allowed=16,
    load=0.1,
    torch=TorchBuild(version="2.8.0+cpu", num_threads=16),
)
CARD = Gpu(
    name="NVIDIA H200",
    used_bytes=0,
    utilisation=0.0,
)
H200 = TorchDevice(name="NVIDIA H200", capability=(9, 0))
CUDA_BUILD = TorchBuild(
    version="2.8.0a0+5228986c39.nv25.06",
    cuda="12.9",
    arch_list=("sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"),
    num_threads=16,
    devices=(H200,),
)
WITH_GPU = replace(
    HEALTHY,
    machine=replace(MACHINE, gpus=("NVIDIA H200",)),
    driver=Driver(version="575.57.08", gpus=(CARD,)),
    nvidia_cards=1,
    nvidia_nodes=True,
    torch=CUDA_BUILD,
)


def with_card(**changes: object) -> Facts:
    """The healthy machine with a GPU that differs in something."""
    assert WITH_GPU.driver is not None
    card = replace(CARD, **changes)  # type: ignore[arg-type]  # names are those of Gpu
    return replace(WITH_GPU, driver=replace(WITH_GPU.driver, gpus=(card,)))


def with_torch(**changes: object) -> Facts:
    """The healthy machine with a GPU and another torch."""
    return replace(WITH_GPU, torch=replace(CUDA_BUILD, **changes))  # type: ignore[arg-type]  # names of TorchBuild


def with_cores(*, allowed: int = 16, quota: float = float("inf"), physical: int | None = 16) -> Facts:
    """The healthy machine without a GPU, with other processors."""
    machine = replace(MACHINE, usable_cores=min(allowed, quota), physical_cores=physical)
    return replace(HEALTHY, machine=machine, allowed=allowed, quota=quota)


def figure(
    name: str,
    mid: float,
    *,
    device: str = "cpu",
    variant: str = "",
    unit: Unit = Unit.FLOP_PER_S,
    threads: int | None = None,
) -> Figure:
    """A figure that is known within 2%."""
    return Figure(
        name=name,
        device=device,
        variant=variant,
        unit=unit,
        value=Interval(low=0.98 * mid, mid=mid, high=1.02 * mid),
        spread=0.01,
        threads=threads,
    )
