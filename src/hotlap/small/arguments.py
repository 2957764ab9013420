"""What the right-hand side of an ODE is called with: (t, y) or y alone."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from hotlap.errors import UserError
from hotlap.small.lowering import name_of


class OfState(nn.Module):
    """A module of y alone as one of (t, y)."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.__name__ = name_of(module)

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> Any:
        """dy/dt, the same at all times."""
        return self.module(y)


def takes_time(func: Callable[..., Any]) -> bool:
    """True: called as func(t, y); False: as func(y).

    An argument that may be left out is neither: in `lambda y, a=a: a @ y` the second is a constant.

    Raises:
        UserError: it takes neither, or its signature does not tell (*args, a builtin).
    """
    unclear = UserError(f"whether {name_of(func)} takes (t, y) or y alone, its signature does not say: wrap it.")
    try:
        signature = inspect.signature(func.forward if isinstance(func, nn.Module) else func)
    except (TypeError, ValueError):  # a builtin
        raise unclear from None
    parameters = signature.parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    num_required = sum(p.default is p.empty for p in positional)
    if num_required < 2 and any(p.kind is p.VAR_POSITIONAL for p in parameters):
        raise unclear
    if num_required in (1, 2) and not any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        return num_required == 2
    raise UserError(f"a right-hand side takes (t, y) or y alone, but {name_of(func)} takes {signature}.")


def with_time(func: Callable[..., Any]) -> Callable[..., Any]:
    """A function or module of y alone -> one of (t, y)."""
    if isinstance(func, nn.Module):
        return OfState(func)

    def of_state(t: torch.Tensor, y: Any) -> Any:
        return func(y)

    of_state.__name__ = name_of(func)
    return of_state
