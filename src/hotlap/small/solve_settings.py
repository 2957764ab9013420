"""What a solve is asked for: the arguments of odeint, checked and in plain numbers."""

import math
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast

import torch

from hotlap.errors import UserError
from hotlap.small.program import Unsupported
from hotlap.small.tableau import METHODS

CONTROL: dict[str, float] = {
    "first_step": 0.0,
    "min_step": 0.0,
    "max_step": math.inf,
    "safety": 0.9,
    "ifactor": 10.0,
    "dfactor": 0.2,
    "max_num_steps": 2**31 - 1,
}
"""torchdiffeq's options of adaptive methods, with its defaults, in the order of native/small/ode.hpp's Control.

A first step of 0 is Hairer's rule.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to solve: everything but the field, the state and the times."""

    method: str
    rtol: float
    atol: float
    control: Mapping[str, float]
    step_size: float | None


def read_settings(method: str | None, rtol: Any, atol: Any, options: Mapping[str, Any] | None) -> Settings:
    """The arguments of odeint, checked. Tolerances of each variable's own are Unsupported."""
    try:
        tolerances = float(rtol), float(atol)
    except (TypeError, ValueError, RuntimeError):
        raise Unsupported("its tolerances are not one number each.") from None
    return _settings(method, *tolerances, options) if options else _plain_settings(method, *tolerances)


@lru_cache(maxsize=64)
def _plain_settings(method: str | None, rtol: float, atol: float) -> Settings:
    return _settings(method, rtol, atol, None)


def _settings(method: str | None, rtol: float, atol: float, options: Mapping[str, Any] | None) -> Settings:
    method = method or "dopri5"
    if method not in METHODS:
        raise UserError(f"method {method!r} is not known; {', '.join(METHODS)} are.")
    given = dict(options or {})
    adaptive = METHODS[method].adaptive
    control = dict(CONTROL)
    step_size = None if adaptive else given.pop("step_size", None)
    for name in CONTROL if adaptive else ():
        if given.get(name) is not None:
            control[name] = float(given[name])
        given.pop(name, None)
    if given:
        raise UserError(f"options {', '.join(sorted(given))} are not known for {method}.")
    if step_size is not None and not 0 < float(step_size) < math.inf:
        raise UserError(f"step_size is {step_size}; it has to be above 0.")
    return Settings(
        method=method,
        rtol=rtol,
        atol=atol,
        control=control,
        step_size=None if step_size is None else float(step_size),
    )


Times = tuple[float, list[float]]
"""A sign, and the times of a solve after it: increasing."""

last_times: list[Any] = [None, None, None]
"""(tensor, its state, its times) of the last call: a training loop asks for the same times again and again."""


def times_of(t: torch.Tensor) -> Times:
    """Checked to be in order, in one direction or the other."""
    known, then, times = last_times
    now = None if t.is_inference() else (t._version, t.data_ptr(), t.shape)  # of one it is not known when it is changed
    if known is not None and known() is t and then == now:
        return cast(Times, times)
    if not t.is_floating_point():
        raise UserError(f"t has to be floating point; it is {t.dtype}.")
    if t.dim() != 1 or len(t) == 0:
        raise UserError(
            f"t has shape {tuple(t.shape)}; one sequence of times is expected, the same for all trajectories. Times of "
            "each trajectory's own: solve at all of them together, and take from each its own; or one call for each."
        )
    values = t.detach().double().tolist()
    sign = -1.0 if len(values) > 1 and values[1] < values[0] else 1.0
    numbers = [sign * value for value in values]
    if not all(a < b for a, b in pairwise(numbers)):
        raise UserError("t has to be strictly increasing or strictly decreasing.")
    times = sign, numbers
    if now is not None:
        last_times[:] = weakref.ref(t), now, times
    return times


def fixed_times(t: torch.Tensor, settings: Settings) -> torch.Tensor | None:
    """The times of fixed steps, for increasing t; None for an adaptive method."""
    if METHODS[settings.method].adaptive:
        return None
    if settings.step_size is None:
        return t
    count = math.ceil(float((t[-1] - t[0]) / settings.step_size + 1))
    grid = torch.arange(count, dtype=t.dtype, device=t.device) * settings.step_size + t[0]
    return torch.cat([grid[:-1], t[-1:]])
