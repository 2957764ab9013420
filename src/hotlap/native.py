"""Which native core this machine runs, or why none: the one place that imports the compiled extensions."""

import importlib
import os
import platform
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

VARIANTS = ("avx512", "avx2", "neon", "portable")
"""Best first; each is its own extension, compiled from the same source, where CMakeLists.txt builds it."""


class Core(NamedTuple):
    """The extension in use, or why there is none."""

    module: Any
    """The loaded extension (`hotlap._core_...`); None without one."""
    variant: str
    """Its instruction set; "" without one."""
    why_not: str
    """A sentence; "" where the extension is in use."""


@cache
def extension() -> Core:
    """Load the best extension that this machine runs. `HOTLAP_NATIVE` names another one, or "off"."""
    wanted = os.environ.get("HOTLAP_NATIVE", "")
    if wanted == "off":
        return Core(None, "", "HOTLAP_NATIVE=off turns the native core off; the same work is done with torch.")
    for variant in (wanted,) if wanted else VARIANTS:
        module = load(variant)
        if module is not None:
            return Core(module, variant, "")
    if wanted:
        return Core(None, "", f"HOTLAP_NATIVE={wanted} names no variant that was built and runs here.")
    return Core(None, "", _missing())


@cache
def core() -> Core:
    """The extension, able to look into torch's tensors."""
    found = extension()
    return found if found.module is None or _set_exchange(found.module) else Core(None, "", _TOO_OLD)


_TOO_OLD = "This torch (before 2.10) does not show its tensors to the native core; the same work is done with torch."


def _missing() -> str:
    if any(find_spec(f"hotlap._core_{variant}") for variant in VARIANTS):
        return "This processor has no AVX2, without which there is no native core; the same work is done with torch."
    return (
        f"hotlap was installed without its native core for {platform.machine()} (no C++ compiler was found then), so "
        "the same work is done with torch, many times slower for small networks. Install a C++20 compiler, then hotlap "
        "again."
    )


def load(variant: str) -> ModuleType | None:
    """The extension of this name, where it was built and this machine runs it."""
    import torch

    # torch asks the processor for all of what the two take, fused products included.
    here = torch.backends.cpu.get_cpu_capability()
    if (variant == "avx512" and here != "AVX512") or (variant == "avx2" and here not in ("AVX2", "AVX512")):
        return None
    try:
        return importlib.import_module(f"hotlap._core_{variant}")
    except ImportError:
        return None


def _set_exchange(module: Any) -> bool:
    import torch

    # DLPack's C functions, by which the core looks into tensors; torch has them since 2.10.
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    return capsule is not None and bool(module.set_exchange(capsule))
