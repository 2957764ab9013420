"""Checks of the torch that is installed: does it reach the GPUs, and does it use them well?"""

from hotlap.machine import cuda
from hotlap.machine.facts import Facts
from hotlap.record import Complaint, Figure, TorchDevice, Weight
from hotlap.units import factor


def cpu_build_beside_gpu(facts: Facts) -> Complaint | None:
    """A torch without CUDA, where there is a card for it."""
    torch = facts.torch
    if torch is None or torch.cuda or torch.hip or not has_card(facts):
        return None
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


def driver_too_old(facts: Facts) -> Complaint | None:
    """The driver does not know the CUDA that torch was built for."""
    if facts.driver is None or facts.torch is None or facts.torch.cuda_works:
        return None
    built, have = cuda.version(facts.torch.cuda), cuda.version(facts.driver.version)
    if built is None or have is None or have[0] >= cuda.OLDEST_DRIVER.get(built[0], 0):
        return None
    usable = _newest_cuda(facts)
    other = f", or install a build of torch for CUDA {usable}.x" if usable else ""
    return Complaint(
        code="driver-too-old",
        weight=Weight.BROKEN,
        what=f"Driver {facts.driver.version} is too old for this torch, which is built for CUDA {facts.torch.cuda}.",
        cost="torch cannot use the GPU at all, and training falls back to the processor or ends with an error.",
        fix=f"Install driver {cuda.OLDEST_DRIVER[built[0]]} or newer{other}.",
    )


def driver_behind(facts: Facts) -> Complaint | None:
    """The driver runs this CUDA only because minor versions are compatible."""
    if facts.driver is None or facts.torch is None:
        return None
    built, known = cuda.version(facts.torch.cuda), cuda.version(facts.driver.cuda)
    if built is None or known is None or built[0] != known[0] or built <= known:
        return None
    return Complaint(
        code="driver-behind",
        weight=Weight.MINOR,
        what=f"torch is built for CUDA {facts.torch.cuda}; driver {facts.driver.version} knows {facts.driver.cuda}.",
        cost="Most of it works, but kernels that are compiled at run time for a newer CUDA fail with an error "
        '("unsupported toolchain").',
        fix=f"Install a driver that shows CUDA {facts.torch.cuda} or newer in nvidia-smi.",
    )


def gpu_not_reached(facts: Facts) -> Complaint | None:
    """A CUDA build, a card, and yet no CUDA."""
    torch = facts.torch
    if torch is None or not torch.cuda or torch.cuda_works or not has_card(facts) or driver_too_old(facts):
        return None
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


def gpu_not_in_build(facts: Facts) -> Complaint | None:
    """The build of torch holds no code for a GPU."""
    for number, device in _devices(facts):
        assert facts.torch is not None
        ways = {cuda.runs(arch, device.capability) for arch in facts.torch.arch_list}
        if "binary" in ways or not facts.torch.arch_list:
            continue
        major, minor = device.capability
        archs = ", ".join(facts.torch.arch_list)
        what = f"{device.name} has capability {major}.{minor}, and torch {facts.torch.version} holds code for {archs}."
        if "compiled" in ways:
            return Complaint(
                code="gpu-not-in-build",
                weight=Weight.MINOR,
                what=what,
                cost="Kernels are compiled at their first use, which takes minutes, and are not made for this GPU.",
                fix=f"Install a build of torch that lists sm_{major}{minor}.",
                about=f"cuda:{number}",
            )
        return Complaint(
            code="gpu-not-in-build",
            weight=Weight.BROKEN,
            what=what,
            cost='Operators fail with "no kernel image is available for execution on the device".',
            fix=f"Install a build of torch for sm_{major}{minor}: a newer one for a new GPU; for an old one, the last "
            "build for CUDA 12.6 or 11.8.",
            about=f"cuda:{number}",
        )
    return None


def no_tensor_cores(facts: Facts) -> Complaint | None:
    """A GPU that has none: half precision brings little there."""
    for number, device in _devices(facts):
        # The GTX 16 series is Turing (7.5) without tensor cores.
        if device.capability >= cuda.TENSOR_CORES and "GTX 16" not in device.name:
            continue
        return Complaint(
            code="no-tensor-cores",
            weight=Weight.MINOR,
            what=f"{device.name} has no tensor cores.",
            cost="Mixed precision saves memory there, but hardly any time.",
            fix="Nothing but another card helps: cards of capability 7.0 and above have them, save the GTX 16 series.",
            about=f"cuda:{number}",
        )
    return None


def tensor_cores_idle(facts: Facts) -> Complaint | None:
    """float32 products avoid the tensor cores."""
    if facts.torch is None or facts.torch.tf32 is not False:
        return None
    for number, device in _devices(facts):
        if device.capability < cuda.BFLOAT16:
            continue
        name = f"cuda:{number}"
        plain, fast = _matmul(facts, name, "float32"), _matmul(facts, name, "tf32")
        gain = f"large products are {factor(fast / plain)} faster with TF32 here" if plain and fast else (
            "large products are several times slower than they could be"
        )  # fmt: skip
        return Complaint(
            code="tensor-cores-idle",
            weight=Weight.MINOR,
            what=f"float32 matrix products do not use the tensor cores of {device.name}: torch's default.",
            cost=f"Where training is in float32, {gain}; under autocast it does not matter.",
            fix='torch.set_float32_matmul_precision("high") in the script; inputs are then rounded to 10 bits of '
            "mantissa, so compare the losses (hotlap tune does).",
            about=name,
        )
    return None


def blocking_launches(facts: Facts) -> Complaint | None:
    """A debugging aid left on."""
    if facts.environment.get("CUDA_LAUNCH_BLOCKING") != "1" or not has_card(facts):
        return None
    return Complaint(
        code="blocking-launches",
        weight=Weight.COSTLY,
        what="CUDA_LAUNCH_BLOCKING=1 is set.",
        cost="The host waits for each kernel, so its own work is never hidden behind the GPU's.",
        fix="Unset it; it is for finding the line of a CUDA error.",
    )


def has_card(facts: Facts) -> bool:
    """There is an NVIDIA GPU, whether anything can use it or not."""
    return bool(facts.nvidia_cards or facts.machine.gpus or facts.nvidia_nodes)


def _devices(facts: Facts) -> list[tuple[int, TorchDevice]]:
    if facts.torch is None or not facts.torch.cuda:
        return []
    return list(enumerate(facts.torch.devices))


def _newest_cuda(facts: Facts) -> int | None:
    """Newest major version of CUDA that the driver runs."""
    have = cuda.version(facts.driver.version if facts.driver else None)
    return max((major for major, least in cuda.OLDEST_DRIVER.items() if have and have[0] >= least), default=None)


def _matmul(facts: Facts, device: str, variant: str) -> float | None:
    found: list[Figure] = [
        figure
        for figure in facts.figures
        if (figure.name, figure.device, figure.variant) == ("matmul", device, variant)
    ]
    return found[0].value.mid if found else None


ALL = (
    cpu_build_beside_gpu,
    driver_too_old,
    gpu_not_reached,
    gpu_not_in_build,
    blocking_launches,
    tensor_cores_idle,
    driver_behind,
    no_tensor_cores,
)
