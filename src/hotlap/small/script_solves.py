"""native_odeint(): calls of torchdiffeq's odeint and odeint_adjoint run natively from now on, where they can."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any

import torch

from hotlap import at_work
from hotlap.errors import UserError
from hotlap.native import core
from hotlap.small.program import Unsupported
from hotlap.small.script_steps import Served, native_steps
from hotlap.small.solve import solve_natively
from hotlap.small.solve_settings import read_settings
from hotlap.small.tableau import METHODS

Around = Callable[[Any, Any, Any, Callable[[], Any]], Any]


def native_odeint() -> None:
    """Run known solves natively from now on, in this process, and what `native_steps` knows.

    Once the solve takes microseconds, the optimizer is most of a step.
    """
    solves = known_solves()
    at_work.register("native_odeint", solves)
    solves.install()
    native_steps()


@cache
def known_solves() -> "NativeSolves":
    """The one object of this process."""
    return NativeSolves()


class NativeSolves(Served):
    """Puts `odeint` in place of torchdiffeq's two functions, under whatever name the script knows them.

    A script that says `from torchdiffeq import odeint` holds the function itself. So not the name is replaced but the
    code that the function object runs; the code as it was runs on in a copy of the function.
    """

    def __init__(self) -> None:
        super().__init__()
        self.native = False
        self._around: Around | None = None
        self._code: dict[Any, CodeType] = {}
        self._originals: dict[str, Any] = {}

    def install(self) -> None:
        """Natively from the next call on."""
        if core().module is None:
            self._note(core().why_not)
        self.native = True
        self._settle()

    def uninstall(self) -> None:
        """As it was."""
        self.native = False
        self._settle()

    def watch(self, around: Around | None) -> None:
        """Have every solve, native or not, done through `around(func, y0, t, run)`; None: nobody listens any more."""
        self._around = around
        self._settle()

    def _settle(self) -> None:
        wanted = self.native or self._around is not None
        torchdiffeq: Any = import_module("torchdiffeq")
        for function, stand_in in ((torchdiffeq.odeint, _odeint), (torchdiffeq.odeint_adjoint, _odeint_adjoint)):
            if wanted and function not in self._code:
                self._code[function] = function.__code__
                self._originals[stand_in.__name__] = _copy_of(function)
                function.__code__ = stand_in.__code__
            elif not wanted and function in self._code:
                function.__code__ = self._code.pop(function)

    def solve(self, which: str, func: Any, y0: Any, t: Any, settings: dict[str, Any]) -> Any:
        """One call of odeint or odeint_adjoint, with the settings that it was given."""
        if self._around is not None:
            return self._around(func, y0, t, lambda: self._solve(which, func, y0, t, settings))
        return self._solve(which, func, y0, t, settings)

    def _solve(self, which: str, func: Any, y0: Any, t: Any, settings: dict[str, Any]) -> Any:
        if self.native:
            try:
                if which == "_odeint_adjoint":
                    _check_adjoint(func, settings)
                solved = _native(func, y0, t, **(self._originals[which].__kwdefaults__ | settings))
                self.at_work = True
                return solved
            except (Unsupported, UserError) as reason:
                self._note(f"A solve is left to torchdiffeq: {reason}")
        return self._originals[which](func, y0, t, **settings)


def _check_adjoint(func: Any, settings: dict[str, Any]) -> None:
    """The exact gradient of the steps is what the adjoint approximates: so its tolerances have no meaning here."""
    if not isinstance(func, torch.nn.Module):
        raise Unsupported("the adjoint of a function that is no module.")
    for name in ("adjoint_options", "adjoint_params"):
        if settings.get(name) is not None:
            raise Unsupported(f"it is given {name}.")


def _native(
    func: Any, y0: Any, t: Any, *, rtol: Any, atol: Any, method: Any, options: Any, event_fn: Any, **others: Any
) -> torch.Tensor:
    if unknown := [name for name in others if not name.startswith("adjoint_")]:
        raise Unsupported(f"it is given {', '.join(unknown)}.")
    if event_fn is not None:
        raise Unsupported("it stops at an event.")
    if method is not None and method not in METHODS:  # of one name are the same methods there and here
        raise Unsupported(f"the method {method!r} is not known.")
    if type(y0) not in (torch.Tensor, torch.nn.Parameter) or type(t) is not torch.Tensor:
        raise Unsupported("its state is no single tensor.")
    return solve_natively(func, y0, t, read_settings(method, rtol, atol, options))


def _copy_of(function: Any) -> Any:
    copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


# Only the code of these two is used, inside torchdiffeq's own functions: so they import what they need.


def _odeint(func, y0, t, **given):  # type: ignore[no-untyped-def]
    from hotlap.small.script_solves import known_solves

    return known_solves().solve("_odeint", func, y0, t, given)


def _odeint_adjoint(func, y0, t, **given):  # type: ignore[no-untyped-def]
    from hotlap.small.script_solves import known_solves

    return known_solves().solve("_odeint_adjoint", func, y0, t, given)
