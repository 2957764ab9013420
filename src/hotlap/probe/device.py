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
    """TRANSFER and SYNC for calls from Python in the training thread. `on_device` is another notion in tests.

    Calls that neither move nor wait cost a branch more, 0.1 to 0.3 us; dynamo traces through to torch's own methods.
    """
    hooks = _Hooks(clock, patch, trains_here, on_device)
    hooks.moving("to", hooks.crosses)
    hooks.moving("copy_", lambda tensor, args: bool(args) and hooks.differs(tensor, args[0]))
    for name in ("cuda", "xpu"):
        hooks.moving(name, lambda tensor, args: not on_device(tensor))
    hooks.moving("cpu", lambda tensor, args: on_device(tensor))
    hooks.moving("pin_memory", lambda tensor, args: not on_device(tensor))
    for name in ("item", "tolist", "__bool__", "__float__", "__int__", "__index__"):
        hooks.waiting(torch.Tensor, name)
    # The size of what they give is known when the device has counted.
    for name in ("nonzero", "masked_select", "unique"):
        hooks.waiting(torch.Tensor, name)
        hooks.waiting(torch, name)
    for owner, name, _ in accelerator.waits():
        hooks.always(owner, name)


class _Hooks:
    def __init__(
        self, clock: Clock, patch: Patch, trains_here: Callable[[], bool], on_device: Callable[[torch.Tensor], bool]
    ) -> None:
        self._clock = clock
        self._patch = patch
        self._trains_here = trains_here
        self._on_device = on_device

    def moving(self, name: str, moves: Callable[[Any, Any], bool]) -> None:
        """A method of tensors that is a transfer if `moves` says so; keyword arguments are passed as positional."""
        enter, leave = self._clock.enter, self._clock.leave
        trains_here, is_compiling = self._trains_here, torch.compiler.is_compiling
        method = getattr(torch.Tensor, name)

        @functools.wraps(method)
        def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not moves(self, args or tuple(kwargs.values())) or not trains_here():
                return method(self, *args, **kwargs)
            enter(phases.TRANSFER)
            try:
                return method(self, *args, **kwargs)
            finally:
                leave()

        self._patch.set(torch.Tensor, name, wrapper)

    def waiting(self, owner: Any, name: str) -> None:
        """A method of tensors, or a function of one, that waits for those on the device."""
        enter, leave = self._clock.enter, self._clock.leave
        trains_here, on_device, is_compiling = self._trains_here, self._on_device, torch.compiler.is_compiling
        function = getattr(owner, name)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not args or not on_device(args[0]) or not trains_here():
                return function(*args, **kwargs)
            enter(phases.SYNC)
            try:
                return function(*args, **kwargs)
            finally:
                leave()

        self._patch.set(owner, name, wrapper)

    def always(self, owner: Any, name: str) -> None:
        """A call whose only purpose is to wait."""
        enter, leave, trains_here = self._clock.enter, self._clock.leave, self._trains_here
        function = getattr(owner, name)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if not trains_here():
                return function(*args, **kwargs)
            enter(phases.SYNC)
            try:
                return function(*args, **kwargs)
            finally:
                leave()

        self._patch.set(owner, name, wrapper)

    def crosses(self, tensor: torch.Tensor, args: Any) -> bool:
        """`Tensor.to(*args)` goes from one side to the other."""
        for target in args:
            if isinstance(target, torch.Tensor):
                return self.differs(tensor, target)
            if isinstance(target, str | torch.device | int) and not isinstance(target, bool):
                return (isinstance(target, int) or accelerator.is_device(str(target))) != self._on_device(tensor)
        return False

    def differs(self, tensor: torch.Tensor, other: Any) -> bool:
        """Two tensors are on different sides."""
        return isinstance(other, torch.Tensor) and self._on_device(tensor) != self._on_device(other)
