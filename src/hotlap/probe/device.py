"""Moments in which the host is busy with the device: moving data there and back, and waiting for it."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from hotlap.levers.lever import Patch
from hotlap.probe import clock as phases
from hotlap.probe.clock import Clock

# What a driver shows of itself: NVIDIA's, WSL's, AMD's.
_DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")


def may_be_used() -> bool:
    """The script may come to use CUDA. Answered without asking CUDA, which reads its environment once and for all, and
    cannot be used in a forked child once it was asked.
    """
    if torch.version.cuda is None and torch.version.hip is None:
        return False
    return sys.platform != "linux" or any(Path(driver).exists() for driver in _DRIVERS)


def is_on_device(tensor: torch.Tensor) -> bool:
    """Not in the host's memory."""
    return tensor.is_cuda


def hook(
    clock: Clock,
    patch: Patch,
    *,
    trains_here: Callable[[], bool],
    on_device: Callable[[torch.Tensor], bool] = is_on_device,
) -> None:
    """TRANSFER and SYNC for calls from Python in the training thread. `on_device` is another notion in tests.

    Calls that neither move nor wait cost a branch more, 0.1 to 0.3 us; dynamo traces through to torch's own methods.
    """
    hooks = _Hooks(clock, patch, trains_here, on_device)
    hooks.moving("to", hooks.crosses)
    hooks.moving("copy_", lambda tensor, args: bool(args) and hooks.differs(tensor, args[0]))
    hooks.moving("cuda", lambda tensor, args: not on_device(tensor))
    hooks.moving("cpu", lambda tensor, args: on_device(tensor))
    hooks.moving("pin_memory", lambda tensor, args: not on_device(tensor))
    for name in ("item", "tolist", "nonzero", "__bool__", "__float__", "__int__", "__index__"):
        hooks.waiting(name)
    hooks.always(torch.cuda, "synchronize")
    hooks.always(torch.cuda.Event, "synchronize")
    hooks.always(torch.cuda.Stream, "synchronize")


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

    def waiting(self, name: str) -> None:
        """A method of tensors that waits for those on the device."""
        enter, leave = self._clock.enter, self._clock.leave
        trains_here, on_device, is_compiling = self._trains_here, self._on_device, torch.compiler.is_compiling
        method = getattr(torch.Tensor, name)

        @functools.wraps(method)
        def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not on_device(self) or not trains_here():
                return method(self, *args, **kwargs)
            enter(phases.SYNC)
            try:
                return method(self, *args, **kwargs)
            finally:
                leave()

        self._patch.set(torch.Tensor, name, wrapper)

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
                kind = "cuda" if isinstance(target, int) else str(target).partition(":")[0]
                return (kind != "cpu") != self._on_device(tensor)
        return False

    def differs(self, tensor: torch.Tensor, other: Any) -> bool:
        """Two tensors are on different sides."""
        return isinstance(other, torch.Tensor) and self._on_device(tensor) != self._on_device(other)
