"""Check of the surroundings: NVIDIA's PyTorch container, whose versions fit each other."""

from hotlap.machine import cuda
from hotlap.machine.facts import Facts
from hotlap.record import Complaint, Weight


def not_in_nvidia_container(facts: Facts) -> Complaint | None:
    """A GPU, and not NVIDIA's container."""
    if facts.driver is None or not facts.driver.gpus or facts.nvidia_container is not None:
        return None
    if facts.torch is not None and ".nv" in facts.torch.version:
        return None
    capabilities = [device.capability for device in facts.torch.devices] if facts.torch else []
    have = cuda.version(facts.driver.version)
    # The releases that are known here hold no code for what came before Turing.
    if have is None or any(capability < cuda.OLDEST_CAPABILITY[13] for capability in capabilities):
        return None
    fix = _tag(facts, have[0])
    if fix is None:
        return None
    return Complaint(
        code="not-in-nvidia-container",
        weight=Weight.MINOR,
        what="torch does not come from NVIDIA's PyTorch container.",
        cost="Nothing by itself: there, driver, CUDA, cuDNN and torch are known to fit each other, and its kernels are "
        "newer.",
        fix=fix,
    )


def _tag(facts: Facts, driver: int) -> str | None:
    mine = cuda.version(facts.torch.version if facts.torch else None)
    fits = cuda.fitting(torch=mine, driver=driver) if mine else None
    container = fits or cuda.newest(driver=driver)
    if container is None:
        return None
    torch, built = (".".join(map(str, numbers)) for numbers in (container.torch, container.cuda))
    near = (
        f"the nearest to your torch {mine[0]}.{mine[1]} that driver {facts.driver.version if facts.driver else driver} "
        "runs"
        if fits and mine
        else "the newest that is known here and that your driver runs"
    )
    return (
        f"{container.image} (torch {torch}, CUDA {built}) is {near}; newer ones are listed in NVIDIA's Frameworks "
        "Support Matrix."
    )


ALL = (not_in_nvidia_container,)
