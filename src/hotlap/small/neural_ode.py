"""NeuralODE(func).fit(...): trains the right-hand side of an ODE, all iterations in one native call."""

import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import nn, optim

from hotlap.errors import UserError
from hotlap.small.lowering import name_of
from hotlap.small.program import Unsupported
from hotlap.small.solve import Field, NativeSolveSkipped, SolveFailed, check_data, compiled_for, odeint, prepare
from hotlap.small.solve_settings import read_settings

Data = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""The state at the start, times, and the solution that is wanted there."""


class NeuralODE:
    """dy/dt = func(t, y) or func(y), solved and trained with one method and tolerance.

    Args:
        func: a module of (t, y), or of y alone, such as an `nn.Sequential`. Its signature tells which.
        method: as in odeint.
        rtol: relative tolerance.
        atol: absolute tolerance.
        options: as in odeint.

    Raises:
        UserError: func takes neither, or does not say what it takes.
    """

    def __init__(
        self,
        func: Field,
        *,
        method: str = "tsit5",
        rtol: float = 1e-3,
        atol: float = 1e-6,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.func = func
        self._field = func if takes_time(func) else with_time(func)
        self.settings = read_settings(method, rtol, atol, options)
        self._options = options
        self.why_torch = ""
        """Why the last fit ran in torch; "" where it ran natively."""

    def __call__(self, y0: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """y at the times `t`, inside autograd."""
        s = self.settings
        solution: torch.Tensor = odeint(
            self._field, y0, t, rtol=s.rtol, atol=s.atol, method=s.method, options=self._options
        )
        return solution

    def fit(
        self,
        y0: torch.Tensor,
        t: torch.Tensor,
        target: torch.Tensor,
        *,
        optimizer: optim.Optimizer,
        loss: Literal["sse", "mse"] = "sse",
        iterations: int = 1,
        after: Callable[[int, float], object] | None = None,
        every: int = 1,
    ) -> list[float]:
        """Train on the solution at `t` against `target`; returns the loss before each update.

        Several trajectories: y0 (rows, variables), target (len(t), rows, variables), all at the same times, which may
        lie apart as they like. Optimizer state is the optimizer's own and current afterwards. `after(iteration, loss)`
        is called every `every` iterations, and may step a scheduler; returning True ends the training.
        """
        if loss not in ("sse", "mse"):
            raise UserError(f"loss {loss!r} is not known; 'sse' and 'mse' are.")
        if every < 1:
            raise UserError(f"every is {every}; it has to be at least 1.")
        check_data(y0, t)
        if tuple(target.shape) != (len(t), *y0.shape) or target.dtype != y0.dtype:
            raise UserError(f"the target is {target.dtype} {tuple(target.shape)}; the solution will be {y0.dtype} "
                            f"{(len(t), *y0.shape)}.")  # fmt: skip
        history: list[float] = []
        span = iterations if after is None else every
        while len(history) < iterations:
            count = min(span, iterations - len(history))
            asked = ((y0, t, target), optimizer, loss == "mse", count)
            try:
                history += self._native(*asked)
                self.why_torch = ""
            except Unsupported as error:
                self._tell(str(error))
                history += self._in_torch(*asked)
            if after is not None and after(len(history) - 1, history[-1]) is True:
                break
        return history

    def _tell(self, problem: str) -> None:
        if problem != self.why_torch:
            warnings.warn(f"NeuralODE.fit runs in torch: {problem}", NativeSolveSkipped, stacklevel=3)
        self.why_torch = problem

    def _native(self, data: Data, optimizer: optim.Optimizer, mean: bool, iterations: int) -> list[float]:
        y0, t, target = data
        if y0.requires_grad or t.requires_grad:
            raise Unsupported("fit trains the parameters of the field; y0 and t are to be constants.")
        compiled = compiled_for(self._field, y0, self.settings.method)
        following = compiled.following(optimizer)
        y0, target = y0.detach().contiguous(), target.detach().contiguous()
        lease = compiled.lease()
        solver = lease.native
        try:
            prepare(solver, t, compiled.rows, self.settings)
            losses = torch.zeros(iterations, dtype=torch.float64, device=y0.device)
            solver.fit(following.native, y0.data_ptr(), target.data_ptr(), mean, iterations, losses.data_ptr())
        except RuntimeError as error:
            raise SolveFailed(f"{error}.") from None
        finally:
            optimizer._opt_called = True  # type: ignore[attr-defined] # a scheduler asks for it
        following.tell()
        return losses.tolist()

    def _in_torch(self, data: Data, optimizer: optim.Optimizer, mean: bool, iterations: int) -> list[float]:
        y0, t, target = data
        if isinstance(optimizer, optim.LBFGS):
            raise UserError("fit cannot use LBFGS, which asks for a closure; write the loop with odeint instead.")
        history = []
        for _ in range(iterations):
            optimizer.zero_grad()
            squares = (self(y0, t) - target).square()
            value = squares.mean() if mean else squares.sum()
            value.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            history.append(float(value.detach()))
        return history


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

    def of_state(t: torch.Tensor, y: Any) -> Any:
        return func(y)

    of_state.__name__ = name_of(func)
    return of_state
