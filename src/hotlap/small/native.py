"""Which native core this machine runs, or why none: the one place that imports the compiled extensions."""

import importlib
import os
import platform
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

VARIANTS = ("avx512", "avx2", "neon", "portable")
"""Best first; each is its own extension, compiled from the same source."""


class Core(NamedTuple):
    """The extension in use, or why there is none."""

    module: Any
    """The loaded extension (`hotlap.small._core_...`); None without one."""
    variant: str
    """Its instruction set; "" without one."""
    why_not: str
    """A sentence; "" where the extension is in use."""
    views: bool
    """Whether it can look into tensors by itself, which saves about a microsecond a call."""


@cache
def core() -> Core:
    """Load the best extension that this machine runs. `HOTLAP_NATIVE` names another one, or "off"."""
    wanted = os.environ.get("HOTLAP_NATIVE", "")
    if wanted == "off":
        return Core(None, "", "HOTLAP_NATIVE=off turns the native core off; the same work is done with torch.", False)
    portable = _load("portable")
    if portable is None:
        return Core(None, "", _missing(), False)
    for variant in (wanted,) if wanted else VARIANTS:
        module = _load(variant) if portable.runs_here(variant) else None
        if module is not None:
            return Core(module, variant, "", _set_exchange(module))
    return Core(None, "", f"HOTLAP_NATIVE={wanted} names no variant that was built and runs here.", False)


def _missing() -> str:
    return (
        f"hotlap was installed without its native core for {platform.machine()} (no C++ compiler was found then), so "
        "the same work is done with torch, many times slower for small networks. Install a C++20 compiler, then hotlap "
        "again."
    )


def _load(variant: str) -> ModuleType | None:
    try:
        return importlib.import_module(f"hotlap.small._core_{variant}")
    except ImportError:
        return None


def _set_exchange(module: Any) -> bool:
    import torch

    # Since torch 2.10 tensors can be read through DLPack's C functions; before that, Python reads their addresses.
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    return capsule is not None and bool(module.set_exchange(capsule))
