"""What the native nodes of autograd share: a short way to apply one, and the native object that it holds."""

from collections.abc import Callable
from typing import Any, cast

import torch

transforms_are_active: Callable[[], bool] = torch._C._are_functorch_transforms_active
is_wrapped: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor


def direct(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """What `function.apply` comes to on plain tensors.

    torch's own goes over all arguments in Python, which takes longer than a native solve: 8 of 13 microseconds with
    four parameters.
    """
    parent: Any = super(torch.autograd.Function, function)
    return cast(Callable[..., Any], parent.apply)


def is_plain(x: torch.Tensor) -> bool:
    """Whether no transform of functorch is at work, and `x` has not outlived one."""
    return not transforms_are_active() and not is_wrapped(x)


class Lease:
    """A native object that keeps a result until nothing can ask for its gradient any more; then it is `free` again."""

    __slots__ = ("_free", "native")

    def __init__(self, free: list[Any], make: Callable[[], Any]) -> None:
        self._free = free
        self.native = free.pop() if free else make()

    def __del__(self) -> None:
        self._free.append(self.native)
