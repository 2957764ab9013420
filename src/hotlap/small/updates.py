"""An optimizer's step on `.grad`, natively: what `optimizer.step()` does, in one call of the core."""

import torch
from torch import optim

from hotlap.small import guards
from hotlap.small.optimizers import NativeOptimizer
from hotlap.small.program import Unsupported


class NativeUpdate:
    """The native update of one optimizer; its state stays in `optimizer.state`, as torch would make it."""

    def __init__(self, optimizer: optim.Optimizer) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        trained = [p for p in parameters if p.grad is not None]
        if not trained:
            raise Unsupported("no parameter has a gradient.")
        _check_parameters(trained)
        self._guard = guards.new()
        self._optimizer = NativeOptimizer(optimizer, trained, self._guard, hooks=True)
        for p in parameters:
            if p.grad is None:
                self._guard.attribute(p, "grad", None)
            else:
                self._guard.tensor(p)

    def step(self) -> bool:
        """Update all parameters; False, with nothing done, where something is not as it was."""
        done: bool = self._optimizer.native.step(self._guard)
        if done:
            self._optimizer.tell()
        return done


def _check_parameters(parameters: list[torch.Tensor]) -> None:
    first = parameters[0]
    if len({id(p) for p in parameters}) != len(parameters):
        raise Unsupported("a parameter is in the optimizer twice.")
    for p in parameters:
        if type(p) not in (torch.nn.Parameter, torch.Tensor) or p.layout != torch.strided:
            raise Unsupported(f"a parameter is a {type(p).__name__}.")
        if p.dtype != first.dtype or p.device.type != "cpu":
            raise Unsupported(f"a parameter is {p.dtype} on {p.device}; one type of numbers on the CPU is known.")
        if not p.is_contiguous():
            raise Unsupported(f"a parameter is not contiguous (strides {tuple(p.stride())}).")
        grad = p.grad
        if grad is None or grad.layout != torch.strided or grad.dtype != p.dtype or not grad.is_contiguous():
            raise Unsupported("a gradient has another form than its parameter.")
        if not p.requires_grad:
            raise Unsupported("a frozen parameter has a gradient.")
