"""CUDA, drivers, GPU generations and NVIDIA's containers: which goes with which. Facts of NVIDIA, with their source."""

import re
from dataclasses import dataclass

# Major version of CUDA -> oldest driver (major version) that runs programs built for any of its minor versions.
# https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html, table 1.
OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}

# CUDA 13 dropped the generations before Turing. https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/ (13.0).
OLDEST_CAPABILITY = {13: (7, 5)}

# Tensor cores came with Volta; those of Turing know no bfloat16 and no TF32.
# https://docs.nvidia.com/cuda/cuda-c-programming-guide/ (compute capabilities, arithmetic instructions).
TENSOR_CORES = (7, 0)
BFLOAT16 = (8, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A release of NVIDIA's PyTorch container."""

    tag: str
    torch: tuple[int, int]
    cuda: tuple[int, int]

    @property
    def image(self) -> str:
        """What `docker run` takes."""
        return f"nvcr.io/nvidia/pytorch:{self.tag}-py3"


# The last release known for each minor version of torch. Sources: the notes of each release,
# https://docs.nvidia.com/deeplearning/frameworks/pytorch-release-notes/ (25.12: torch 2.10.0a0, CUDA 13.1.0), and the
# versions that Triton's containers took over ("2.9.0a0+145a3a7bda.nv25.10", CUDA 13.0.2; nv25.6: CUDA 12.9.1; nv25.4:
# CUDA 12.9.0; nv25.1: CUDA 12.8.0; nv24.10: CUDA 12.6),
# https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/introduction/compatibility.html
CONTAINERS = (
    Container(tag="24.10", torch=(2, 5), cuda=(12, 6)),
    Container(tag="25.01", torch=(2, 6), cuda=(12, 8)),
    Container(tag="25.04", torch=(2, 7), cuda=(12, 9)),
    Container(tag="25.06", torch=(2, 8), cuda=(12, 9)),
    Container(tag="25.10", torch=(2, 9), cuda=(13, 0)),
    Container(tag="25.12", torch=(2, 10), cuda=(13, 1)),
)


def version(text: str | None) -> tuple[int, int] | None:
    """ "12.8", "2.13.0+cu126" or "550.54.15" -> its first two numbers; None if there are none."""
    found = re.match(r"(\d+)(?:\.(\d+))?", text or "")
    return (int(found[1]), int(found[2] or 0)) if found else None


def fitting(*, torch: tuple[int, int], driver: int) -> Container | None:
    """The container whose torch is nearest below or at `torch` and whose CUDA the driver runs; None without one.

    Not one that is more than a minor version of torch away: that is another training environment.
    """
    fits = [
        container
        for container in CONTAINERS
        if driver >= OLDEST_DRIVER[container.cuda[0]] and (0, -1) <= _distance(container.torch, torch) <= (0, 0)
    ]
    return max(fits, key=lambda container: container.torch, default=None)


def _distance(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] - other[0], one[1] - other[1]


def newest(*, driver: int) -> Container | None:
    """The newest known container whose CUDA the driver runs."""
    fits = [container for container in CONTAINERS if driver >= OLDEST_DRIVER[container.cuda[0]]]
    return max(fits, key=lambda container: container.torch, default=None)


def runs(arch: str, capability: tuple[int, int]) -> str | None:
    """How code for `arch` ("sm_86", "compute_90", "sm_90a") runs on a GPU: "binary", "compiled" (at the start), None.

    A binary runs on its own major version from its own minor version on; PTX ("compute_") on all that came later; what
    ends in a letter runs on that very generation ("a"), or on its family ("f") as a binary does.
    https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/ (GPU compilation).
    """
    found = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", arch)
    if found is None:
        return None
    built = int(found[2]), int(found[3])
    if found[4] == "a":
        return "binary" if built == capability else None
    if found[1] == "compute" and not found[4]:
        return "compiled" if capability >= built else None
    return "binary" if built[0] == capability[0] and built <= capability else None
