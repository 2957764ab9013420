"""odeint(func, y0, t) as in torchdiffeq: natively where `func` is made of known layers and arithmetic, else by it."""

import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

import torch
from torch import optim

from hotlap.errors import HotlapError, UserError
from hotlap.small import guards
from hotlap.small.node import ByIdentity, Lease, direct, is_wrapped, transforms_are_active
from hotlap.small.optimizers import NativeOptimizer
from hotlap.small.program import Unsupported, native
from hotlap.small.solve_settings import Settings, fixed_times, read_settings, times_of
from hotlap.small.tableau import METHODS
from hotlap.small.trace import trace_field

Field = Callable[..., Any]


class NativeSolveSkipped(UserWarning):
    """A solve runs in torchdiffeq; the message says why."""


class SolveFailed(HotlapError):  # noqa: N818 - reads as the sentence "the solve failed"
    """The native solver could not go on; the message says why, at which t, and with which step size."""


def odeint(
    func: Field,
    y0: Any,
    t: torch.Tensor,
    *,
    rtol: float | torch.Tensor = 1e-7,
    atol: float | torch.Tensor = 1e-9,
    method: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Solve dy/dt = func(t, y), y(t[0]) = y0; gives y at all of `t`, shape (len(t), *y0.shape).

    Arguments and results are those of torchdiffeq's odeint, which solves what the native core does not know.
    Gradients reach y0 and the parameters of `func`, exact for the steps that were taken; to t, they are torchdiffeq's.

    Args:
        func: module or function of (t, y); `NeuralODE` takes one of y alone as well.
        y0: the state; its last dimension are the variables, the others trajectories.
        t: increasing or decreasing times.
        rtol: relative tolerance of an adaptive method.
        atol: absolute tolerance.
        method: dopri5 (default), tsit5 (dopri5 in torchdiffeq); rk4 and euler step from time to time.
        options: torchdiffeq's.
    """
    try:
        return solve_natively(func, y0, t, read_settings(method, rtol, atol, options))
    except Unsupported as error:
        reason = str(error)
    try:
        torchdiffeq: Any = import_module("torchdiffeq")
    except ImportError:
        raise UserError(f"{reason} It would be solved by torchdiffeq, which is not installed.") from None
    warnings.warn(f"odeint runs in torchdiffeq: {reason}", NativeSolveSkipped, stacklevel=2)
    # It has no tsit5; dopri5 is of the same order.
    method = "dopri5" if method == "tsit5" else method
    return torchdiffeq.odeint(func, y0, t, rtol=rtol, atol=atol, method=method, options=options)


def solve_natively(func: Field, y0: Any, t: torch.Tensor, settings: Settings) -> torch.Tensor:
    """The solve in the native core; Unsupported says why it cannot be had there."""
    if isinstance(y0, tuple):
        raise Unsupported("the state is a tuple.")
    check_data(y0, t)
    if t.requires_grad and torch.is_grad_enabled():
        raise Unsupported("gradients to t are taken in torch.")
    compiled = compiled_for(func, y0, settings.method)
    apply = _apply_directly if not (transforms_are_active() or is_wrapped(y0)) else _Solution.apply
    out: torch.Tensor = apply(compiled, settings, y0, t, *compiled.trained)
    return out


def check_data(y0: torch.Tensor, t: torch.Tensor) -> None:
    """UserError where a state or times are no tensors of the form that a solve takes."""
    for name, given in (("y0", y0), ("t", t)):
        if not isinstance(given, torch.Tensor):
            raise UserError(f"{name} has to be a tensor; it is {type(given).__name__}.")
    if not y0.is_floating_point():
        raise UserError(f"y0 has to be floating point; it is {y0.dtype}.")
    times_of(t)


class Compiled:
    """A field that was traced for one form of state, and solvers for it: one for each solution that is still alive."""

    def __init__(self, func: Field, y: torch.Tensor, method: str) -> None:
        if y.device.type != "cpu":
            raise Unsupported(f"the state is on {y.device}; the native core works on the CPU.")
        if y.numel() == 0:
            raise Unsupported("the state is empty.")
        self._native = native(y.dtype)
        self.program, guard = guards.traced(func, lambda: trace_field(func, y))
        self.holds: Callable[[], bool] = guard.holds
        """Whether nothing that was read while tracing has changed."""
        self.rows = y.numel() // (y.shape[-1] if y.dim() else 1)
        self.trained = self.program.trained
        self.memory = guards.memory(self.program.parameters)
        self._tableau = METHODS[method]
        self._free: list[Any] = []
        self._followed: tuple[optim.Optimizer, NativeOptimizer] | None = None

    def following(self, optimizer: optim.Optimizer) -> NativeOptimizer:
        """The native optimizer, from the last call where it is of this one: to make it takes longer than an iteration.

        Raises:
            Unsupported: the native core does not know this one.
        """
        if self._followed is None or self._followed[0] is not optimizer or not self._followed[1].holds():
            self._followed = optimizer, NativeOptimizer(optimizer, self.program.parameters, guards.new())
        return self._followed[1]

    def versions(self) -> list[int]:
        """Of the tensors that must not change between a solve and its way back."""
        return [p._version for p in self.program.parameters]

    def lease(self) -> Lease:
        """A solver that nobody uses."""
        return Lease(self._free, self._make)

    def _make(self) -> Any:
        tableau, s = self._tableau, len(self._tableau.c)
        a = [row[j] if j < len(row) else 0.0 for row in tableau.a for j in range(s)]
        solver = self._native.Ode(
            self.program.description(),
            tableau.order,
            list(tableau.c),
            a,
            list(tableau.e or [0.0] * s),
            [w for row in tableau.dense for w in row],
        )
        solver.asked = None  # what `prepare` has told it
        return solver


_compiled: ByIdentity[Field, dict[Any, Compiled]] = ByIdentity()
"""Field -> form of its state -> the traced field."""


def compiled_for(func: Field, y: torch.Tensor, method: str) -> Compiled:
    """The traced field, from the last call where nothing that was read then has changed."""
    form = (y.shape, y.dtype, y.device, method)
    forms = _compiled.get(func)
    found = None if forms is None else forms.get(form)
    if found is None or not found.holds():
        found = Compiled(func, y, method)
        if forms is not None:
            forms[form] = found
        else:
            with suppress(TypeError):  # not weakly referable: traced every time
                _compiled.put(func, {form: found})
    return found


def prepare(solver: Any, t: torch.Tensor, rows: int, settings: Settings) -> None:
    """Tell a solver the times and the control, if they are not those that it knows already."""
    sign, numbers = times = times_of(t)
    asked = (times, rows, settings)
    if solver.asked == asked:
        return
    solver.asked = None
    grid = fixed_times(sign * t.detach(), settings)
    *control, max_num_steps = settings.control.values()
    solver.set_control([settings.rtol, settings.atol, *control], int(min(max_num_steps, 2**62)))
    solver.set_times(numbers, [] if grid is None else grid.double().tolist(), sign, rows)
    solver.asked = asked


class _Solution(torch.autograd.Function):
    """A native solve inside autograd."""

    @staticmethod
    def forward(
        ctx: Any, compiled: Compiled, settings: Settings, y0: torch.Tensor, t: torch.Tensor, *_trained: Any
    ) -> Any:
        ctx.compiled, ctx.lease, ctx.versions = compiled, compiled.lease(), compiled.versions()
        solver = ctx.lease.native
        dense = y0 if y0.is_contiguous() else y0.contiguous()
        prepare(solver, t, compiled.rows, settings)
        out = dense.new_empty(t.shape[0], *y0.shape)
        try:
            solver.solve(dense.data_ptr(), out.data_ptr())
        except RuntimeError as error:
            raise SolveFailed(f"{error}.") from None
        return out

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return _second_is_refused(ctx, gradient) if torch.is_grad_enabled() else _gradients(ctx, gradient)


def _gradients(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """Those of `_Solution.forward`'s arguments."""
    compiled, wanted = ctx.compiled, ctx.needs_input_grad
    if not gradient.is_contiguous():
        gradient = gradient.contiguous()
    to_y0 = torch.empty_like(gradient[0]) if wanted[2] else None
    found = [torch.empty_like(p) for p in compiled.trained]
    if ctx.versions != compiled.versions() or not compiled.memory.holds():
        raise RuntimeError(
            "a parameter of the field was changed in place, or given other memory, between the solve and its backward "
            "pass."
        )
    ctx.lease.native.backward(
        gradient.data_ptr(),
        0 if to_y0 is None else to_y0.data_ptr(),
        [one.data_ptr() for one in found],
    )
    return None, None, to_y0, None, *found


_apply_directly = direct(_Solution)
_second_is_refused = torch.autograd.function.once_differentiable(_gradients)
"""With create_graph=True: the same gradients, whose own gradient is an error and not nothing."""
