"""The one door to devices: what torch.accelerator, torch.Event and torch.Stream say of whatever device there is.

No question here starts a device: what the script sets in its environment, or forks, before its own first use of one
must still count. So "is there one?" is never asked of a driver, only "has the script started one?".
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from hotlap import cuda

# What a driver shows of itself: NVIDIA's, WSL's, AMD's; Intel's.
_DRIVERS = {"cuda": ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd"), "xpu": ("/dev/dri",)}

# torch's own, before anybody wraps it: what hotlap waits for is no wait of the script's.
_synchronize = torch.accelerator.synchronize

# The name of torch's slot for backends of others, as long as none has taken it.
_NO_BACKEND = "privateuseone"


def may_come() -> bool:
    """The script may come to use a device that torch is built for, or one whose backend was imported."""
    built = {"cuda": torch.version.cuda or torch.version.hip, "xpu": getattr(torch.version, "xpu", None)}
    return _others() is not None or any(
        built[kind] and any(Path(driver).exists() for driver in drivers) for kind, drivers in _DRIVERS.items()
    )


def in_use() -> str | None:
    """Type of the device that the script has started ("cuda", which is ROCm's as well, "xpu", ...); None before.

    Apple's MPS cannot be asked, and counts as not in use.
    """
    for kind in ("cuda", "xpu", _others()):
        if kind is not None and _answer(kind, "is_initialized"):
            return kind
    return None


def is_lost_to_fork() -> bool:
    """This process was forked from one that had started a device, and cannot use it: drivers are not made for that."""
    return any(_answer(kind, "_is_in_bad_fork") for kind in ("cuda", "xpu", _others()) if kind is not None)


def on_device(tensor: torch.Tensor) -> bool:
    """Its values are not in the host's memory."""
    return not (tensor.is_cpu or tensor.is_meta)


def is_device(name: str) -> bool:
    """`name` ("cuda:0") is not the host's."""
    return name.partition(":")[0] != "cpu"


def is_pinned(tensor: torch.Tensor) -> bool:
    """Of a tensor on the host: its memory is page-locked, so that copies need not wait."""
    return in_use() is not None and tensor.is_pinned()


def lane(device: torch.device | None = None) -> torch.Stream:
    """The stream on which the calling thread launches now, on `device` (else on the current one)."""
    return torch.accelerator.current_stream(device)


def event(*, timed: bool = False) -> torch.Event:
    """An event for the device in use; of two that are `timed` and over, `elapsed_time` gives milliseconds (float32)."""
    return torch.Event(in_use(), enable_timing=timed)


def synchronize() -> None:
    """Wait until every device that the script has used has done what it was given; at once where there is none."""
    kind = in_use()
    if kind is not None:
        for index in _used(kind):
            _synchronize(index)


def waits() -> Iterator[tuple[Any, str, str]]:
    """(owner, name, name for people) of what a script calls in order to wait, as far as it can be wrapped.

    (`torch.Event` and `torch.Stream` are types of C, whose methods cannot be.)
    """
    yield torch.accelerator, "synchronize", "torch.accelerator.synchronize"
    for kind in ("cuda", "xpu", _others()):
        module = None if kind is None else getattr(torch, kind, None)
        if hasattr(module, "synchronize"):
            yield module, "synchronize", f"torch.{kind}.synchronize"
        for owner in (getattr(module, "Event", None), getattr(module, "Stream", None)):
            if owner not in (None, torch.Event, torch.Stream):
                yield owner, "synchronize", f"{owner.__name__}.synchronize"


def allocated_bytes() -> int | None:
    """In tensors, on the fullest device; None without one."""
    return _fullest("memory_allocated")


def peak_bytes() -> int | None:
    """The most that was in tensors at a time, on the fullest device; None without one."""
    return _fullest("max_memory_allocated")


def reserved_bytes() -> int | None:
    """The most that the allocator held at a time, on the fullest device; None without one."""
    return _fullest("max_memory_reserved")


def free_bytes() -> int | None:
    """What is left beside all that is there now, on the fullest device; None where that is not told."""
    kind = in_use()
    found = [] if kind is None else [_answer(kind, "mem_get_info", index) for index in _used(kind)]
    return min((free for free, _ in filter(None, found)), default=None)


def random_states() -> Iterator[torch.Tensor]:
    """States of the global generators of the devices in use."""
    kind = in_use()
    if kind is not None:
        yield from (torch.get_device_module(kind).get_rng_state(index) for index in _used(kind))


def name(device: torch.device) -> str:
    """The name that the driver gives, or else the type: "cpu"."""
    found = _answer(device.type, "get_device_name", device) if is_device(device.type) else None
    return str(found or device.type)


def _others() -> str | None:
    """The type that a backend outside of torch has registered."""
    found = torch._C._get_privateuse1_backend_name()
    return None if found == _NO_BACKEND else found


def _used(kind: str) -> Iterator[int]:
    """A device that was never used is left alone: to ask it anything makes a context on it, some hundred megabytes."""
    known = cuda.has_context if kind == "cuda" else lambda index: True
    return (index for index in range(torch.get_device_module(kind).device_count()) if known(index))


def _fullest(figure: str) -> int | None:
    kind = in_use()
    found = [] if kind is None else [_answer(kind, figure, index) for index in _used(kind)]
    return max((number for number in found if number is not None), default=None)


def _answer(kind: str, question: str, *args: Any) -> Any:
    """What `torch.<kind>.<question>` says; None where a backend has no such function."""
    function = getattr(getattr(torch, kind, None), question, None)
    return None if function is None else function(*args)
