"""The torch that is installed: does it reach the GPUs, and does it hold code for them?"""

from collections.abc import Iterator

from hotlap.machine import cuda
from hotlap.machine.facts import Facts
from hotlap.record import Complaint, TorchBuild, TorchDevice, Weight


def check(facts: Facts) -> Iterator[Complaint]:
    """A build without CUDA, for another driver, or for other GPUs."""
    torch = facts.torch
    if torch is None or not (facts.nvidia_cards or facts.machine.gpus or facts.nvidia_nodes):
        return
    if not torch.cuda and not torch.hip:
        yield _without_cuda(facts, torch)
    elif torch.cuda and not torch.devices:
        yield _driver_too_old(facts, torch) or _not_reached(facts, torch)
    elif torch.cuda and torch.arch_list:
        for number, device in enumerate(torch.devices):
            yield from _without_code(device, torch, about=f"cuda:{number}")


def _without_cuda(facts: Facts, torch: TorchBuild) -> Complaint:
    names = ", ".join(facts.machine.gpus) or "an NVIDIA card on the PCI bus"
    newest = _newest_cuda(facts)
    driver = f"; driver {facts.driver.version} runs builds for CUDA {newest}.x" if facts.driver and newest else ""
    return Complaint(
        code="cpu-torch-beside-gpu",
        weight=Weight.BROKEN,
        what=f"torch {torch.version} is built without CUDA, and this machine has {names}.",
        cost="Every training runs on the processor; the GPU idles.",
        fix="Install a CUDA build of torch with the command that https://pytorch.org/get-started/locally shows"
        f"{driver}.",
    )


def _driver_too_old(facts: Facts, torch: TorchBuild) -> Complaint | None:
    built, have = cuda.version(torch.cuda), cuda.version(facts.driver.version if facts.driver else None)
    if facts.driver is None or built is None or have is None or have[0] >= cuda.OLDEST_DRIVER.get(built[0], 0):
        return None
    usable = _newest_cuda(facts)
    other = f", or install a build of torch for CUDA {usable}.x" if usable else ""
    return Complaint(
        code="driver-too-old",
        weight=Weight.BROKEN,
        what=f"Driver {facts.driver.version} is too old for this torch, which is built for CUDA {torch.cuda}.",
        cost="torch cannot use the GPU at all, and training falls back to the processor or ends with an error.",
        fix=f"Install driver {cuda.OLDEST_DRIVER[built[0]]} or newer{other}.",
    )


def _not_reached(facts: Facts, torch: TorchBuild) -> Complaint:
    visible = facts.environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1", "NoDevFiles"):
        why, fix = f'CUDA_VISIBLE_DEVICES is "{visible}"', "Unset it, or name the GPU to use: CUDA_VISIBLE_DEVICES=0."
    elif facts.container and not facts.nvidia_nodes:
        why = "this container was not given the device"
        fix = "Start it with --gpus all (docker) or ask for nvidia.com/gpu (Kubernetes)."
    elif facts.driver is None:
        why, fix = "NVIDIA's driver does not answer", "Install the driver, or load its module: modprobe nvidia."
    else:
        why = f"torch.cuda.is_available() is False with driver {facts.driver.version}"
        fix = "Run python -c 'import torch; torch.zeros(1).cuda()': its error says what is missing."
    return Complaint(
        code="gpu-not-reached",
        weight=Weight.BROKEN,
        what=f"There is an NVIDIA GPU, and torch {torch.version} cannot use it: {why}.",
        cost="Every training runs on the processor.",
        fix=fix,
    )


def _without_code(device: TorchDevice, torch: TorchBuild, *, about: str) -> Iterator[Complaint]:
    ways = {cuda.runs(arch, device.capability) for arch in torch.arch_list}
    if "binary" in ways:
        return
    compiled = "compiled" in ways
    major, minor = device.capability
    yield Complaint(
        code="gpu-not-in-build",
        weight=Weight.MINOR if compiled else Weight.BROKEN,
        what=f"{device.name} has capability {major}.{minor}, and torch {torch.version} holds code for "
        f"{', '.join(torch.arch_list)}.",
        cost="Kernels are compiled at their first use, which takes minutes, and are not made for this GPU."
        if compiled
        else 'Operators fail with "no kernel image is available for execution on the device".',
        fix=f"Install a build of torch that lists sm_{major}{minor}: a newer one for a new GPU; for an old one, the "
        "last build for CUDA 12.6 or 11.8.",
        about=about,
    )


def _newest_cuda(facts: Facts) -> int | None:
    """Newest major version of CUDA that the driver runs."""
    have = cuda.version(facts.driver.version if facts.driver else None)
    return max((major for major, least in cuda.OLDEST_DRIVER.items() if have and have[0] >= least), default=None)
