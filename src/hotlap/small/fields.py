"""Fields that were traced, kept from call to call, and the native solvers made from them."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import optim

from hotlap.small import guards
from hotlap.small.node import ByIdentity, Lease
from hotlap.small.optimizers import NativeOptimizer
from hotlap.small.program import Unsupported, native
from hotlap.small.solve_settings import Settings, fixed_times, times_of
from hotlap.small.tableau import METHODS
from hotlap.small.trace import trace_field

Field = Callable[..., Any]


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
