"""Fields that were traced, kept from call to call, and the native solvers made from them."""

import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from hotlap.native import Core, core, core_for
from hotlap.small import guards
from hotlap.small.program import Op, Program, Unsupported
from hotlap.small.solve_settings import Settings, fixed_times, times_of
from hotlap.small.tableau import METHODS
from hotlap.small.trace import trace_field

Field = Callable[..., Any]

EVALUATIONS = 30
"""So many a solve is taken to ask for, before it is made, when the extension for it is chosen."""


@dataclass(frozen=True, slots=True)
class _Home:
    """Solvers of one extension that nobody uses."""

    core: Core
    free: list[Any] = field(default_factory=list)


class Compiled:
    """A field that was traced for one form of state, and solvers for it: one for each solution that is still alive."""

    def __init__(self, func: Field, y: torch.Tensor, method: str, *, time_gradient: bool) -> None:
        self.program: Program = trace_field(func, y)
        if any(node.op is Op.DROPOUT for node in self.program.nodes):
            raise Unsupported("the field has a dropout that is on, which torch draws; .eval() turns it off.")
        guard = guards.new_guard()
        if isinstance(func, nn.Module):
            guards.watch_model(guard, func, self.program.parameters)
        else:
            guards.watch_function(guard, func, self.program.parameters)
        self.holds: Callable[[], bool] = guard.holds
        """Whether nothing that was read while tracing has changed."""
        self.rows = y.numel() // (y.shape[-1] if y.dim() else 1)
        self.numbers = [n for n, p in enumerate(self.program.parameters) if p.requires_grad]
        self.trained = [self.program.parameters[n] for n in self.numbers]
        self._tableau = METHODS[method]
        self._time_gradient = time_gradient
        asked = EVALUATIONS * self.program.multiplications(self.rows)
        self._homes = {False: _Home(core_for(asked)), True: _Home(core())}

    def solver(self, *, loop: bool = False) -> Any:
        """One that nobody uses: for one solve, or for a loop of them that stays in the core."""
        home = self._homes[loop]
        return home.free.pop() if home.free else self._make(home.core)

    def give_back(self, solver: Any, *, loop: bool = False) -> None:
        """Its solution is no longer needed."""
        self._homes[loop].free.append(solver)

    def _make(self, of: Core) -> Any:
        tableau, s = self._tableau, len(self._tableau.b)
        a = [row[j] if j < len(row) else 0.0 for row in tableau.a for j in range(s)]
        name = "OdeFloat32" if self.program.dtype == torch.float32 else "OdeFloat64"
        solver = getattr(of.module, name)(
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
        solver.watch(self.program.parameters)
        return solver


class Lease:
    """A solver that holds a solution until nothing can ask for its gradient any more."""

    __slots__ = ("compiled", "solver")

    def __init__(self, compiled: Compiled, solver: Any) -> None:
        self.compiled = compiled
        self.solver = solver

    def __del__(self) -> None:
        self.compiled.give_back(self.solver)


_compiled: dict[int, tuple[Any, dict[Any, Compiled]]] = {}
"""id of a field -> (weak reference to it, form of its state -> the traced field)."""


def known_for(func: Field, form: tuple[Any, ...]) -> Compiled | None:
    """The field as it was traced before, if nothing that was read then has changed."""
    entry = _compiled.get(id(func))
    if entry is None or entry[0]() is not func:
        return None
    found = entry[1].get(form)
    return found if found is not None and found.holds() else None


def compiled_for(func: Field, y: torch.Tensor, method: str, *, time_gradient: bool) -> Compiled:
    """The traced field, from the last call where nothing that was read then has changed."""
    form = (y.shape, y.dtype, y.device, method, time_gradient)
    found = known_for(func, form)
    if found is None:
        found = Compiled(func, y, method, time_gradient=time_gradient)
        entry = _compiled.get(id(func))
        if entry is not None and entry[0]() is func:
            entry[1][form] = found
        else:
            number, table = id(func), _compiled  # for the callback: at Python's end globals are None
            with suppress(TypeError):  # not weakly referable: traced every time
                table[number] = weakref.ref(func, lambda _: table.pop(number, None)), {form: found}
    return found


def prepare(solver: Any, t: torch.Tensor, rows: int, settings: Settings) -> None:
    """Tell a solver the times and the control, if they are not those that it knows already."""
    times = times_of(t)
    asked = (times, rows, settings)
    if solver.asked == asked:
        return
    solver.asked = None
    grid = fixed_times(times.sign * t.detach(), settings)
    c = settings.control
    numbers = [settings.rtol, settings.atol, c["first_step"], c["min_step"], c["max_step"], c["safety"], c["ifactor"]]
    solver.set_control([*numbers, c["dfactor"], c["proportional"]], int(c["max_num_steps"]))
    solver.set_times(times.numbers, [] if grid is None else grid.double().tolist(), times.sign, rows, settings.each)
    solver.asked = asked
