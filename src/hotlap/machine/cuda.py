"""CUDA, drivers and GPU generations: which goes with which. Facts of NVIDIA, with their source."""

import re

# Major version of CUDA -> oldest driver (major version) that runs programs built for any of its minor versions.
# https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html, table 1.
OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}


def version(text: str | None) -> tuple[int, int] | None:
    """ "12.8", "2.13.0+cu126" or "550.54.15" -> its first two numbers; None if there are none."""
    found = re.match(r"(\d+)(?:\.(\d+))?", text or "")
    return (int(found[1]), int(found[2] or 0)) if found else None


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
