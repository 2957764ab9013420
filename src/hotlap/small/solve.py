"""odeint(func, y0, t) as in torchdiffeq, natively where `func` is made of known layers and arithmetic."""

import math
import warnings
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast

import torch
from torch import nn

from hotlap.errors import UserError
from hotlap.small import guards, torch_solver
from hotlap.small.native import core
from hotlap.small.program import Program, Unsupported
from hotlap.small.tableau import METHODS, Tableau
from hotlap.small.torch_solver import SolveFailed
from hotlap.small.trace import trace_field

Field = Callable[..., Any]

CONTROL: dict[str, float] = {
    "first_step": 0.0,
    "min_step": 0.0,
    "max_step": math.inf,
    "safety": 0.9,
    "ifactor": 10.0,
    "dfactor": 0.2,
    "max_num_steps": 2**31 - 1,
}
"""torchdiffeq's options of adaptive methods, with its defaults; a first step of 0 is Hairer's rule."""

PI_EXPONENT = 0.04
"""Of the last error in the PI controller: Hairer's dopri5.f."""


class NativeSolveSkipped(UserWarning):
    """A solve runs in torch; the message says why. Said once for each reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to solve: everything but the field, the state and the times."""

    method: str
    rtol: float
    atol: float
    control: Mapping[str, float]
    step_size: float | None
    each: bool
    """Whether every trajectory (row) has steps of its own."""

    @property
    def tableau(self) -> Tableau:
        """The method's coefficients."""
        return METHODS[self.method]


def read_settings(method: str | None, rtol: Any, atol: Any, options: Mapping[str, Any] | None) -> Settings:
    """The arguments of odeint, checked."""
    if options:
        return _settings(method, float(rtol), float(atol), options)
    return _plain_settings(method, float(rtol), float(atol))


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
    controller = given.pop("controller", "i")
    if controller not in ("i", "pi"):
        raise UserError(f"controller {controller!r} is not known; 'i' and 'pi' are.")
    control["proportional"] = PI_EXPONENT if controller == "pi" else 0.0
    each = bool(given.pop("per_trajectory", False))
    step_size = None if adaptive else given.pop("step_size", None)
    for name in CONTROL if adaptive else ():
        if given.get(name) is not None:
            control[name] = float(given[name])
        given.pop(name, None)
    if given:
        raise UserError(f"options {', '.join(sorted(given))} are not known for {method}.")
    return Settings(
        method=method,
        rtol=rtol,
        atol=atol,
        control=control,
        step_size=None if step_size is None else float(step_size),
        each=each,
    )


def odeint(
    func: Field,
    y0: Any,
    t: torch.Tensor,
    *,
    rtol: float = 1e-7,
    atol: float = 1e-9,
    method: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Solve dy/dt = func(t, y), y(t[0]) = y0; gives y at all of `t`, shape (len(t), *y0.shape).

    Arguments and results are those of torchdiffeq's odeint (a tuple as state included), gradients reach y0, t and
    the parameters of `func`. They are exact for the steps that were taken.

    Args:
        func: module or function of (t, y).
        y0: the state; its last dimension are the variables, the others trajectories.
        t: increasing or decreasing times.
        rtol: relative tolerance of an adaptive method.
        atol: absolute tolerance.
        method: dopri5 (default), tsit5, bosh3; rk4 and euler take fixed steps from time to time.
        options: torchdiffeq's; and controller="pi", per_trajectory=True (each trajectory with steps of its own).
    """
    settings = read_settings(method, rtol, atol, options)
    if isinstance(y0, tuple):
        return _solve_tuple(func, y0, t, settings)
    try:
        return solve_natively(func, y0, t, settings)
    except Unsupported as error:
        _tell_once(str(error))
    return _in_torch(func, y0, t, settings)


def solve_natively(func: Field, y0: torch.Tensor, t: torch.Tensor, settings: Settings) -> torch.Tensor:
    """The solve in the native core; Unsupported says why it cannot be had there."""
    time_gradient = t.requires_grad and torch.is_grad_enabled()
    compiled = _known_for(func, (y0.shape, y0.dtype, y0.device, settings.method, time_gradient))
    if compiled is None or _last_times[0] is None or _last_times[0]() is not t:
        _check(y0, t)
        problem = _why_not_native(y0, t, settings)
        if problem:
            raise Unsupported(problem)
        compiled = compiled_for(func, y0, settings.method, time_gradient=time_gradient)
    out: torch.Tensor = _Solution.apply(compiled, settings, y0, t, *compiled.trained)  # type: ignore[no-untyped-call]
    return out


def _check(y0: torch.Tensor, t: torch.Tensor) -> None:
    if not y0.is_floating_point() or not t.is_floating_point():
        raise UserError(f"y0 and t have to be floating point; they are {y0.dtype} and {t.dtype}.")
    if t.dim() != 1 or len(t) == 0:
        raise UserError(f"t has shape {tuple(t.shape)}; a sequence of times is expected.")
    _times_of(t)


@dataclass(frozen=True, slots=True)
class _Times:
    """The times of a solve in plain numbers, increasing after `sign`."""

    sign: float
    numbers: list[float]


_last_times: list[Any] = [None, -1, None]
"""(tensor, its version, its times) of the last call: a training loop asks for the same times again and again."""


def _times_of(t: torch.Tensor) -> _Times:
    known, version, times = _last_times
    if known is not None and known() is t and version == t._version:
        return cast(_Times, times)
    values = t.detach().double().tolist()
    sign = -1.0 if len(values) > 1 and values[1] < values[0] else 1.0
    numbers = [sign * value for value in values]
    if not all(a < b for a, b in pairwise(numbers)):
        raise UserError("t has to be strictly increasing or strictly decreasing.")
    times = _Times(sign, numbers)
    _last_times[:] = weakref.ref(t), t._version, times
    return times


def _why_not_native(y0: torch.Tensor, t: torch.Tensor, settings: Settings) -> str:
    if core().module is None:
        return core().why_not
    if y0.dtype not in (torch.float32, torch.float64) or y0.device.type != "cpu":
        return f"the state is {y0.dtype} on {y0.device}; float32 and float64 on the CPU are known."
    if not settings.tableau.adaptive and t.requires_grad and torch.is_grad_enabled():
        return "gradients to t of a method with fixed steps are taken in torch."
    if y0.numel() == 0:
        return "the state is empty."
    return ""


_told: set[str] = set()


def _tell_once(problem: str) -> None:
    if problem not in _told:
        _told.add(problem)
        warnings.warn(f"odeint runs in torch: {problem}", NativeSolveSkipped, stacklevel=4)


def _solve_tuple(func: Field, y0: tuple[torch.Tensor, ...], t: torch.Tensor, settings: Settings) -> Any:
    """States side by side in one long one, as torchdiffeq does it."""
    sizes = [y.numel() for y in y0]

    def apart(y: torch.Tensor, lead: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
        parts = torch.split(y, sizes, dim=-1)
        return tuple(part.reshape((*lead, *one.shape)) for part, one in zip(parts, y0, strict=True))

    def joined(now: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([part.reshape(-1) for part in func(now, apart(y, ()))])

    flat = torch.cat([y.reshape(-1) for y in y0])
    _check(flat, t)
    _tell_once("the state is a tuple.")
    return apart(_in_torch(joined, flat, t, settings), (len(t),))


def _grid(t: torch.Tensor, settings: Settings) -> torch.Tensor | None:
    """The times of fixed steps, for increasing t; None for an adaptive method."""
    if settings.tableau.adaptive:
        return None
    if settings.step_size is None:
        return t
    count = math.ceil(float((t[-1] - t[0]) / settings.step_size + 1))
    grid = torch.arange(count, dtype=t.dtype) * settings.step_size + t[0]
    return torch.cat([grid[:-1], t[-1:]])


def _in_torch(func: Field, y0: torch.Tensor, t: torch.Tensor, settings: Settings) -> torch.Tensor:
    sign = -1.0 if len(t) > 1 and bool(t[1] < t[0]) else 1.0

    def field(now: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        slope: torch.Tensor = func(sign * now, y)
        return sign * slope

    control = {**settings.control, "rtol": settings.rtol, "atol": settings.atol}
    times = sign * t
    grid = _grid(times, settings)
    if settings.each and y0.dim() > 1:
        rows = y0.reshape(-1, 1, *y0.shape[-1:])
        parts = [
            torch_solver.solve(field, row, times, tableau=settings.tableau, control=control, grid=grid) for row in rows
        ]
        return torch.cat(parts, dim=1).reshape(len(t), *y0.shape)
    return torch_solver.solve(field, y0, times, tableau=settings.tableau, control=control, grid=grid)


# -- native ----------------------------------------------------------------------------------------------------------


class Compiled:
    """A field that was traced for one form of state, and solvers for it: one for each solution that is still alive."""

    def __init__(self, func: Field, y: torch.Tensor, method: str, *, time_gradient: bool) -> None:
        self.program: Program = trace_field(func, y)
        self._guard = guards.new_guard()
        if isinstance(func, nn.Module):
            guards.watch_model(self._guard, func, self.program.parameters)
        else:
            guards.watch_function(self._guard, func, self.program.parameters)
        self.rows = y.numel() // (y.shape[-1] if y.dim() else 1)
        self.numbers = [n for n, p in enumerate(self.program.parameters) if p.requires_grad]
        self.trained = [self.program.parameters[n] for n in self.numbers]
        self._tableau = METHODS[method]
        self._time_gradient = time_gradient
        self._free: list[Any] = []

    def holds(self) -> bool:
        """Whether nothing that was read while tracing has changed."""
        return bool(self._guard.holds())

    def solver(self) -> Any:
        """One that nobody uses."""
        return self._free.pop() if self._free else self.make()

    def give_back(self, solver: Any) -> None:
        """Its solution is no longer needed."""
        self._free.append(solver)

    def make(self) -> Any:
        """A new native solver."""
        tableau, s = self._tableau, len(self._tableau.b)
        a = [row[j] if j < len(row) else 0.0 for row in tableau.a for j in range(s)]
        name = "OdeFloat32" if self.program.dtype == torch.float32 else "OdeFloat64"
        return getattr(core().module, name)(
            *self.program.description(),
            tableau.order,
            tableau.first_same_as_last,
            a,
            list(tableau.b),
            list(tableau.c),
            list(tableau.e or [0.0] * s),
            [w for row in tableau.dense for w in row],
            self._time_gradient,
        )


class Lease:
    """A solver that holds a solution until nothing can ask for its gradient any more."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.solver = compiled.solver()

    def __del__(self) -> None:
        self.compiled.give_back(self.solver)


_compiled: dict[int, tuple[Any, dict[Any, Compiled]]] = {}
"""id of a field -> (weak reference to it, form of its state -> the traced field)."""


def _known_for(func: Field, form: tuple[Any, ...]) -> Compiled | None:
    """The field as it was traced before, if nothing that was read then has changed."""
    entry = _compiled.get(id(func))
    if entry is None or entry[0]() is not func:
        return None
    found = entry[1].get(form)
    return found if found is not None and found.holds() else None


def compiled_for(func: Field, y: torch.Tensor, method: str, *, time_gradient: bool) -> Compiled:
    """The traced field, from the last call where nothing that was read then has changed."""
    form = (y.shape, y.dtype, y.device, method, time_gradient)
    found = _known_for(func, form)
    if found is None:
        found = Compiled(func, y, method, time_gradient=time_gradient)
        entry = _compiled.get(id(func))
        if entry is not None and entry[0]() is func:
            entry[1][form] = found
        else:
            number, table = id(func), _compiled
            with suppress(TypeError):  # not weakly referable: traced every time
                table[number] = weakref.ref(func, lambda gone: _forget(table, number, gone)), {form: found}
    return found


def _forget(table: dict[int, tuple[Any, dict[Any, Compiled]]], number: int, gone: Any) -> None:
    if number in table and table[number][0] is gone:
        del table[number]


def prepare(solver: Any, t: torch.Tensor, rows: int, settings: Settings) -> None:
    """Tell a solver the times and the control, if they are not those that it knows already."""
    times = _times_of(t)
    asked = (times, rows, settings)
    if solver.asked == asked:
        return
    solver.asked = None
    grid = _grid(times.sign * t.detach(), settings)
    c = settings.control
    numbers = [settings.rtol, settings.atol, c["first_step"], c["min_step"], c["max_step"], c["safety"], c["ifactor"]]
    solver.set_control([*numbers, c["dfactor"], c["proportional"]], int(c["max_num_steps"]))
    solver.set_times(times.numbers, [] if grid is None else grid.double().tolist(), times.sign, rows, settings.each)
    solver.asked = asked


class _Solution(torch.autograd.Function):
    """A native solve inside autograd."""

    @staticmethod
    def forward(
        ctx: Any, compiled: Compiled, settings: Settings, y0: torch.Tensor, t: torch.Tensor, *_trained: Any
    ) -> Any:
        ctx.lease = lease = Lease(compiled)
        dense = y0 if y0.is_contiguous() else y0.contiguous()
        prepare(lease.solver, t, compiled.rows, settings)
        out = dense.new_empty((t.shape[0], *y0.shape))
        try:
            lease.solver.solve(dense.data_ptr(), out.data_ptr())
        except RuntimeError as error:
            raise SolveFailed(f"{error}.") from None
        ctx.t = t
        ctx.versions = [p._version for p in compiled.program.parameters]
        return out

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return _second_is_refused(ctx, gradient) if torch.is_grad_enabled() else _gradients(ctx, gradient)


def _gradients(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """Those of `_Solution.forward`'s arguments."""
    compiled, wanted = ctx.lease.compiled, ctx.needs_input_grad
    if ctx.versions != [p._version for p in compiled.program.parameters]:
        raise RuntimeError("a parameter of the field was changed in place between the solve and its backward pass.")
    if not gradient.is_contiguous():
        gradient = gradient.contiguous()
    to_y0 = torch.empty_like(gradient[0]) if wanted[2] else None
    to_t = torch.zeros(ctx.t.shape[0], dtype=torch.float64) if wanted[3] else None
    found = [torch.empty_like(p) for p in compiled.trained]
    ctx.lease.solver.backward(
        gradient.data_ptr(),
        0 if to_y0 is None else to_y0.data_ptr(),
        0 if to_t is None else to_t.data_ptr(),
        compiled.numbers,
        [one.data_ptr() for one in found],
    )
    return None, None, to_y0, None if to_t is None else to_t.to(ctx.t.dtype), *found


_second_is_refused = torch.autograd.function.once_differentiable(_gradients)
"""With create_graph=True: the same gradients, whose own gradient is an error and not nothing."""
