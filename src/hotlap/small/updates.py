"""An optimizer's step on `.grad`, natively: what `optimizer.step()` does, in one call of the core."""

import torch
from torch import optim

from hotlap.small import guards, optimizers
from hotlap.small.program import Unsupported, native


class NativeUpdate:
    """The native update of one optimizer; its state stays in `optimizer.state`, as torch would make it."""

    def __init__(self, optimizer: optim.Optimizer) -> None:
        optimizers.check_known(optimizer, hooks=True)
        trained = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not trained:
            raise Unsupported("no parameter has a gradient.")
        _check_parameters(trained)
        self._parameters = trained
        self._form = optimizers.form(optimizer)
        self._native = native(trained[0].dtype).Update(optimizers.description(optimizer, trained), trained)
        self._guard = guards.new()
        guards.watch_optimizer(self._guard, optimizer)
        for p in trained:
            self._guard.tensor(p)
            self._guard.attribute(p, "requires_grad", True)
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    self._guard.attribute(p, "grad", None)
        self._settings = guards.watching_settings(optimizer)

    def step(self, optimizer: optim.Optimizer) -> bool:
        """Update all parameters; False, with nothing done, where something is not as it was."""
        if not self._native.step(self._guard, self._settings) and not self._step_again(optimizer):
            return False
        torch._C._increment_version(self._parameters)  # autograd is to notice the change
        return True

    def _step_again(self, optimizer: optim.Optimizer) -> bool:
        """The same after a scheduler that changes more than the rates (momentum, betas)."""
        if optimizers.form(optimizer) != self._form:
            return False
        self._native.set_groups(optimizers.settings(optimizer))
        self._settings = guards.watching_settings(optimizer)
        return bool(self._native.step(self._guard, self._settings))


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
