"""NVML -> what NVIDIA's driver says of itself and of its GPUs, by NVIDIA's own bindings (nvidia-ml-py)."""

import importlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hotlap.record import Driver, Gpu

# Reasons for lower clocks that hold a GPU back, by heat or by its supply; idleness, clocks that somebody set and its
# own power limit, at which it does all it may, are none.
# https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
SLOWDOWNS = {
    "hw_slowdown": 0x08,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
}


def ask() -> Driver | None:
    """The driver of this machine, and all its GPUs; None without a driver that answers.

    Never raises: a question that the bindings, the driver or the card do not know leaves its field None.
    """
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # not installed, no driver, or one that is broken: each has errors of its own
        return None
    try:
        version = _told(nvml.nvmlSystemGetDriverVersion)
        if version is None:
            return None
        found = (_told(nvml.nvmlDeviceGetHandleByIndex, k) for k in range(_told(nvml.nvmlDeviceGetCount) or 0))
        return Driver(version=version, gpus=tuple(_gpu(nvml, handle) for handle in found if handle is not None))
    finally:
        with suppress(Exception):
            nvml.nvmlShutdown()


def _gpu(nvml: Any, handle: Any) -> Gpu:
    def ask(name: str) -> Any:
        return _told(getattr(nvml, name, None), handle)

    memory, rates = ask("nvmlDeviceGetMemoryInfo"), ask("nvmlDeviceGetUtilizationRates")
    # "Event" since driver 535, "Throttle" before.
    reasons = ask("nvmlDeviceGetCurrentClocksEventReasons") or ask("nvmlDeviceGetCurrentClocksThrottleReasons") or 0
    return Gpu(
        name=ask("nvmlDeviceGetName") or "NVIDIA GPU",
        slowdowns=tuple(name for name, bit in SLOWDOWNS.items() if reasons & bit),
        used_bytes=None if memory is None else int(memory.used),
        utilisation=None if rates is None else rates.gpu / 100,
        processes=tuple(int(one.pid) for one in ask("nvmlDeviceGetComputeRunningProcesses") or ()),
    )


def _told(question: Callable[..., Any] | None, *words: object) -> Any:
    """The answer; None where there is none."""
    if question is None:
        return None
    try:
        return question(*words)
    except Exception:  # NVML's own errors are made at run time, and old bindings raise others
        return None
