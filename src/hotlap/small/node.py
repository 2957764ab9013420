"""autograd.Function.apply without its look for functorch's wrappers, where functorch has no part in a call."""

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
