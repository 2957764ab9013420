"""A torch optimizer as the native core reads and writes it: its settings and states are torch's own objects."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import optim
from torch.optim import optimizer as of_all

from hotlap.small.program import Unsupported, native

METHODS: dict[type[optim.Optimizer], int] = {optim.SGD: 0, optim.Adam: 1, optim.AdamW: 1}
"""The numbers are shared with native/small/optimizer.hpp."""

UNKNOWN = ("dampening", "amsgrad", "differentiable", "capturable")
"""Settings that have to be off, as in native/small/update.hpp."""


class NativeOptimizer:
    """One optimizer over (some of) the parameters of a program, and what notices that it is another one.

    Its settings are read at each step. State that is missing is made as torch would make it; `optimizer.state` keeps it
    alive. The optimizer itself is not kept alive.

    Args:
        optimizer: any; Unsupported names what the native core does not do.
        parameters: of one type of numbers.
        guard: what has to stay as it is, to which all that is the optimizer's is added.
        hooks: whether step hooks are welcome, because the caller runs them.
    """

    def __init__(
        self, optimizer: optim.Optimizer, parameters: Sequence[torch.Tensor], guard: Any, *, hooks: bool = False
    ) -> None:
        _check_known(optimizer, hooks=hooks)
        self._guard = guard
        method = METHODS[type(optimizer)]
        number_of = {id(p): number for number, p in enumerate(parameters)}
        slots = [
            (number_of[id(p)], index, p, *_states(optimizer, method, p, group))
            for index, group in enumerate(optimizer.param_groups)
            for p in group["params"]
            if id(p) in number_of and p.requires_grad
        ]
        self.native = native(parameters[0].dtype).Optimizer(method, optimizer.param_groups, slots)
        for name in ("state", "param_groups"):
            guard.entry(vars(optimizer), name, getattr(optimizer, name))
        for group in optimizer.param_groups:
            guard.entry(group, "params", group["params"])
        lists = (group["params"] for group in optimizer.param_groups)
        for what in (optimizer.param_groups, *lists, optimizer.state, *optimizer.state.values(), *_hooks(optimizer)):
            guard.contents(what)
        for state in [state for slot in slots for state in slot[3:] if state is not None]:
            guard.tensor(state)
        self._updated = [slot[2] for slot in slots]

    def holds(self) -> bool:
        """Whether all of that is as it was, and the settings are such as are known."""
        return bool(self._guard.holds() and self.native.reads())

    def tell(self) -> None:
        """Autograd is to notice that the parameters were updated."""
        torch._C._increment_version(self._updated)


def _hooks(optimizer: Any) -> tuple[dict[int, Any], ...]:
    """Those of its steps, and of all optimizers' steps."""
    own = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks
    return *own, of_all._global_optimizer_pre_hooks, of_all._global_optimizer_post_hooks


def _check_known(optimizer: optim.Optimizer, *, hooks: bool) -> None:
    name = type(optimizer).__name__
    if type(optimizer) not in METHODS:
        raise Unsupported(f"the optimizer {name} is not known; SGD, Adam and AdamW are.")
    if not hooks and any(_hooks(optimizer)):
        raise Unsupported("the optimizer has step hooks.")
    for group in optimizer.param_groups:
        for setting in UNKNOWN:
            if group.get(setting):
                raise Unsupported(f"{name} with {setting}={group[setting]} is not known.")
        numbers = {key: group.get(key, 0.0) for key in ("lr", "weight_decay", "momentum", "eps")}
        for key, value in (*numbers.items(), *(("betas", beta) for beta in group.get("betas", ()))):
            if not isinstance(value, int | float):
                raise Unsupported(f"{name} with a {type(value).__name__} as {key} is not known; a number is.")


def _states(
    optimizer: optim.Optimizer, method: int, p: torch.Tensor, group: Mapping[str, Any]
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """Both states of a parameter, and the count of its updates; None for what its method does not have."""
    if method == 0 and not group["momentum"]:
        return None, None, None
    state = optimizer.state[p]
    if method == 0:
        return _state(state, "momentum_buffer", p), None, None
    count = _count(state)  # first, as torch makes it
    return _state(state, "exp_avg", p), _state(state, "exp_avg_sq", p), count


def _count(state: dict[str, Any]) -> torch.Tensor:
    """The number of updates, as torch keeps it: a float32 tensor of no dimension."""
    step = state.get("step")
    if not isinstance(step, torch.Tensor) or step.dtype != torch.float32 or step.device.type != "cpu":
        state["step"] = step = torch.tensor(float(step or 0.0), dtype=torch.float32, device="cpu")
    return step


def _state(state: dict[str, Any], name: str, p: torch.Tensor) -> torch.Tensor:
    tensor = state.get(name)
    if tensor is None:
        state[name] = tensor = torch.zeros_like(p, memory_format=torch.preserve_format)
    if tensor.shape != p.shape or tensor.dtype != p.dtype or not tensor.is_contiguous():
        raise Unsupported(
            f"the optimizer's {name} of a {tuple(p.shape)} parameter has another form than the parameter."
        )
    return tensor
