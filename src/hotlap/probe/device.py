"""Moments in which the host is busy with the device: moving data there and back, and waiting for it."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

from hotlap import accelerator
from hotlap.levers.lever import Patch
from hotlap.probe import unseen
from hotlap.probe.clock import SYNC, TRANSFER, Clock
from hotlap.probe.guard import call_behind, surrounded


def hook_when_there(patch: Patch, install: Callable[[], None]) -> None:
    """Call `install` now where a device may come, else once another's backend is imported: on most machines, never."""
    if accelerator.may_come():
        install()
    else:
        call_behind(patch, torch, "_register_device_module", lambda *_: install())


def hook(
    clock: Clock,
    patch: Patch,
    *,
    trains_here: Callable[[], bool],
    on_host: Callable[[Tensor], bool] = Tensor.is_cpu.__get__,  # type: ignore[attr-defined] # no call of Python's
) -> None:
    """TRANSFER and SYNC for calls from Python in the training thread. Tests call something else the host.

    Calls that neither move nor wait cost a branch more. Dynamo traces through to torch's own methods.
    """
    around = functools.partial(_around, clock, patch, trains_here)

    def is_none_there(*args: Any, **kwargs: Any) -> bool:
        return not args or on_host(args[0])

    for name in ("to", "copy_"):
        around(Tensor, name, TRANSFER, functools.partial(_stays, on_host))
    for name in ("cuda", "xpu", "pin_memory"):
        around(Tensor, name, TRANSFER, lambda *args, **kwargs: not on_host(args[0]))
    around(Tensor, "cpu", TRANSFER, is_none_there)
    # An optimizer alone reads several values of the host's in each step: no call of Python's more than the wrapper's.
    for name in ("item", "tolist", "__bool__", "__float__", "__int__", "__index__"):
        around(Tensor, name, SYNC, on_host)
    # The size of what they give is known when the device has counted.
    for name in ("nonzero", "masked_select", "unique"):
        around(Tensor, name, SYNC, is_none_there)
        around(torch, name, SYNC, is_none_there)
    for owner, name, _ in accelerator.waits():
        around(owner, name, SYNC, lambda *args, **kwargs: False)


def _around(
    clock: Clock,
    patch: Patch,
    trains_here: Callable[[], bool],
    owner: Any,
    name: str,
    phase: int,
    passes_by: Callable[..., bool],
) -> None:
    """Calls are in `phase`, unless `passes_by` says of their arguments that nothing moves or waits."""
    function = getattr(owner, name)
    timed = surrounded(functools.partial(clock.enter, phase), function, clock.leave)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if (unseen.compiles and is_compiling()) or passes_by(*args, **kwargs) or not trains_here():
            return function(*args, **kwargs)
        return timed(*args, **kwargs)

    patch.set(owner, name, wrapper)


def _stays(on_host: Callable[[Tensor], bool], tensor: Tensor, *args: Any, **kwargs: Any) -> bool:
    """`tensor.to(...)`, or `tensor.copy_(...)`, does not go from one side to the other."""
    for target in args or kwargs.values():
        if isinstance(target, Tensor):
            return on_host(target) == on_host(tensor)
        if isinstance(target, torch.device):
            return (target.type == "cpu") == on_host(tensor)
        if isinstance(target, str):
            return accelerator.is_device(target) != on_host(tensor)
        if type(target) is int:
            return not on_host(tensor)
    return True
