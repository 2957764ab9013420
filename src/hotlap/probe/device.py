"""Moments in which the host is busy with the device: moving data there and back, and waiting for it."""

import functools
from collections.abc import Callable
from typing import Any

import torch

from hotlap import accelerator
from hotlap.levers.lever import Patch
from hotlap.probe import clock as phases
from hotlap.probe.clock import Clock


def hook_when_there(patch: Patch, install: Callable[[], None]) -> None:
    """Call `install` now where a device may come, else once another's backend is imported: on most machines, never."""
    if accelerator.may_come():
        install()
        return
    register: Any = torch._register_device_module

    @functools.wraps(register)
    def registered(*args: Any, **kwargs: Any) -> None:
        register(*args, **kwargs)
        if torch._register_device_module is registered:
            torch._register_device_module = register
            install()

    patch.set(torch, "_register_device_module", registered)


def hook(
    clock: Clock,
    patch: Patch,
    *,
    trains_here: Callable[[], bool],
    on_device: Callable[[torch.Tensor], bool] = accelerator.on_device,
) -> None:
    """TRANSFER and SYNC for calls from Python in the training thread. Tests call something else a device.

    Calls that neither move nor wait cost a branch more, 0.1 to 0.3 us; dynamo traces through to torch's own methods.
    """
    around = functools.partial(_around, clock, patch, trains_here)

    def is_there(args: Any, kwargs: Any) -> bool:
        return bool(args) and on_device(args[0])

    for name in ("to", "copy_"):
        around(torch.Tensor, name, phases.TRANSFER, functools.partial(_crosses, on_device))
    for name in ("cuda", "xpu", "pin_memory"):
        around(torch.Tensor, name, phases.TRANSFER, lambda args, kwargs: not on_device(args[0]))
    around(torch.Tensor, "cpu", phases.TRANSFER, is_there)
    for name in ("item", "tolist", "__bool__", "__float__", "__int__", "__index__"):
        around(torch.Tensor, name, phases.SYNC, is_there)
    # The size of what they give is known when the device has counted.
    for name in ("nonzero", "masked_select", "unique"):
        around(torch.Tensor, name, phases.SYNC, is_there)
        around(torch, name, phases.SYNC, is_there)
    for owner, name, _ in accelerator.waits():
        around(owner, name, phases.SYNC, lambda args, kwargs: True)


def _around(
    clock: Clock,
    patch: Patch,
    trains_here: Callable[[], bool],
    owner: Any,
    name: str,
    phase: int,
    concerns: Callable[[Any, Any], bool],
) -> None:
    """Calls are in `phase` where `concerns(args, kwargs)` says so."""
    function = getattr(owner, name)
    enter, leave, is_compiling = clock.enter, clock.leave, torch.compiler.is_compiling

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if is_compiling() or not concerns(args, kwargs) or not trains_here():
            return function(*args, **kwargs)
        enter(phase)
        try:
            return function(*args, **kwargs)
        finally:
            leave()

    patch.set(owner, name, wrapper)


def _crosses(on_device: Callable[[torch.Tensor], bool], args: Any, kwargs: Any) -> bool:
    """`tensor.to(...)`, or `tensor.copy_(...)`, goes from one side to the other."""
    for target in args[1:] or kwargs.values():
        if isinstance(target, torch.Tensor):
            return on_device(args[0]) != on_device(target)
        if isinstance(target, str | torch.device | int) and not isinstance(target, bool):
            return (isinstance(target, int) or accelerator.is_device(str(target))) != on_device(args[0])
    return False
