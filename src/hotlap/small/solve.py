"""odeint(func, y0, t) as in torchdiffeq, natively where `func` is made of known layers and arithmetic."""

import math
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from hotlap.errors import UserError
from hotlap.small import torch_solver
from hotlap.small.native import core
from hotlap.small.program import Program, Unsupported
from hotlap.small.tableau import METHODS, Tableau
from hotlap.small.torch_solver import SolveFailed
from hotlap.small.trace import HOOKS, trace_field

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
        rtol=float(rtol),
        atol=float(atol),
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
    _check(y0, t)
    problem = _why_not_native(y0, t, settings)
    if not problem:
        try:
            return _native(func, y0, t, settings)
        except Unsupported as error:
            problem = str(error)
    _tell_once(problem)
    return _in_torch(func, y0, t, settings)


def _check(y0: torch.Tensor, t: torch.Tensor) -> None:
    if not y0.is_floating_point() or not t.is_floating_point():
        raise UserError(f"y0 and t have to be floating point; they are {y0.dtype} and {t.dtype}.")
    if t.dim() != 1 or len(t) == 0:
        raise UserError(f"t has shape {tuple(t.shape)}; a sequence of times is expected.")
    steps = t[1:] - t[:-1]
    if not bool((steps > 0).all() or (steps < 0).all()):
        raise UserError("t has to be strictly increasing or strictly decreasing.")


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
        self.marks, self._kept = _marks(func)
        self.program: Program = trace_field(func, y)
        self.trained = [n for n, p in enumerate(self.program.parameters) if p.requires_grad]
        self._tableau = METHODS[method]
        self._time_gradient = time_gradient
        self._free: list[Any] = []

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


_compiled: "weakref.WeakKeyDictionary[Any, dict[Any, Compiled]]" = weakref.WeakKeyDictionary()


def compiled_for(func: Field, y: torch.Tensor, method: str, *, time_gradient: bool) -> Compiled:
    """The traced field, from the last call where nothing that was read then has changed."""
    key = (tuple(y.shape), y.dtype, method, time_gradient)
    try:
        known = _compiled.setdefault(func, {})
    except TypeError:  # neither hashable nor weakly referable: trace every time
        known = {}
    found = known.get(key)
    if found is None or found.marks != _marks(func)[0]:
        found = known[key] = Compiled(func, y, method, time_gradient=time_gradient)
    return found


PLAIN = (int, float, bool, str, type(None))


def _marks(func: Field) -> tuple[list[Any], list[Any]]:
    """What tracing may have read, as values to be compared, and the objects themselves so that no id is used again."""
    marks: list[Any] = []
    kept: list[Any] = []

    def see(value: Any) -> None:
        kept.append(value)
        marks.append(value if isinstance(value, PLAIN) else id(value))
        if isinstance(value, torch.Tensor):
            # A changed constant may have been copied, transposed; a parameter is read where it lies.
            marks.append(
                (value.data_ptr(), value.shape, value.requires_grad, 0 if value.requires_grad else value._version)
            )
            marks.append(bool(value._backward_hooks))

    for module in _modules_of(func, see):
        own = vars(module)
        marks.append(tuple(len(own[hooks]) for hooks in HOOKS))
        for value in (*own["_parameters"].values(), *own["_buffers"].values()):
            see(value)
        for key, value in own.items():
            if not key.startswith("_"):
                see(value)
        _see_code(type(module).forward, see)
    return marks, kept


def _modules_of(func: Field, see: Callable[[Any], None]) -> Iterator[nn.Module]:
    if isinstance(func, nn.Module):
        yield from func.modules()
        return
    for value in _see_code(func, see):
        if isinstance(value, nn.Module):
            yield from value.modules()


def _see_code(func: Any, see: Callable[[Any], None]) -> list[Any]:
    """The globals, closure and defaults that a function may read; torch's own functions are taken as they are."""
    code = getattr(func, "__code__", None)
    if code is None or getattr(func, "__module__", "").startswith("torch."):
        return []
    names = func.__globals__
    values = [names[name] for name in code.co_names if name in names]
    for cell in func.__closure__ or ():
        values.append(cell.cell_contents)
    values.extend(func.__defaults__ or ())
    for value in values:
        see(value)
    return values


def prepare(solver: Any, t: torch.Tensor, rows: int, settings: Settings) -> None:
    """Tell a solver the times and the control."""
    sign = -1.0 if len(t) > 1 and bool(t[1] < t[0]) else 1.0
    times = (sign * t.detach()).double()
    grid = _grid(sign * t.detach(), settings)
    c = settings.control
    numbers = [settings.rtol, settings.atol, c["first_step"], c["min_step"], c["max_step"], c["safety"], c["ifactor"]]
    solver.set_control([*numbers, c["dfactor"], c["proportional"]], int(c["max_num_steps"]))
    solver.set_times(times.tolist(), [] if grid is None else grid.double().tolist(), sign, rows, settings.each)


class _Solution(torch.autograd.Function):
    """A native solve inside autograd."""

    @staticmethod
    def forward(
        ctx: Any, compiled: Compiled, settings: Settings, y0: torch.Tensor, t: torch.Tensor, *_trained: Any
    ) -> Any:
        lease = Lease(compiled)
        y0 = y0.contiguous()
        rows = y0.numel() // (y0.shape[-1] if y0.dim() else 1)
        prepare(lease.solver, t, rows, settings)
        out = torch.empty((len(t), *y0.shape), dtype=y0.dtype)
        try:
            lease.solver.solve(y0.data_ptr(), out.data_ptr())
        except RuntimeError as error:
            raise SolveFailed(f"{error}.") from None
        ctx.lease = lease
        ctx.shape = y0.shape
        ctx.t = t
        ctx.versions = [p._version for p in compiled.program.parameters]
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        compiled, solver = ctx.lease.compiled, ctx.lease.solver
        if ctx.versions != [p._version for p in compiled.program.parameters]:
            raise RuntimeError("a parameter of the field was changed in place between the solve and its backward pass.")
        gradient = gradient.contiguous()
        to_y0 = torch.empty(ctx.shape, dtype=gradient.dtype)
        to_t = torch.zeros(len(ctx.t), dtype=torch.float64) if ctx.needs_input_grad[3] else None
        solver.backward(gradient.data_ptr(), to_y0.data_ptr(), 0 if to_t is None else to_t.data_ptr())
        found = []
        for number in compiled.trained:
            one = torch.empty_like(compiled.program.parameters[number])
            solver.copy_gradient(number, one.data_ptr())
            found.append(one)
        return None, None, to_y0, None if to_t is None else to_t.to(ctx.t.dtype), *found


def _native(func: Field, y0: torch.Tensor, t: torch.Tensor, settings: Settings) -> torch.Tensor:
    time_gradient = t.requires_grad and torch.is_grad_enabled()
    compiled = compiled_for(func, y0, settings.method, time_gradient=time_gradient)
    trained = [compiled.program.parameters[n] for n in compiled.trained]
    out: torch.Tensor = _Solution.apply(compiled, settings, y0, t, *trained)  # type: ignore[no-untyped-call]
    return out
