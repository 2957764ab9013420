"""A torch optimizer -> its settings and its own state tensors, as the native core reads and writes them."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import optim

from hotlap.small.program import Unsupported

METHODS: dict[type[optim.Optimizer], int] = {optim.SGD: 0, optim.Adam: 1, optim.AdamW: 1}
"""The numbers are shared with native/small/optimizer.hpp."""

FLAGS = ("nesterov", "maximize", "decoupled_weight_decay")
UNKNOWN_FLAGS = ("amsgrad", "differentiable", "capturable")
NUMBERS = ("lr", "weight_decay", "momentum", "eps")
READ = (*NUMBERS[1:], "dampening", "betas", *FLAGS, "amsgrad")
"""The settings of a group that the native core is given, or that it refuses; the rate is read at every step."""

HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")


def check_known(optimizer: optim.Optimizer, *, hooks: bool = False) -> None:
    """Unsupported for what the native core does not do.

    Args:
        optimizer: any.
        hooks: whether step hooks are welcome, because the caller runs them.
    """
    name = type(optimizer).__name__
    if type(optimizer) not in METHODS:
        raise Unsupported(f"the optimizer {name} is not known; SGD, Adam and AdamW are.")
    for name_of_hooks in () if hooks else HOOKS:
        if getattr(optimizer, name_of_hooks, None):
            raise Unsupported(f"the optimizer has step hooks ({name_of_hooks}).")
    for group in optimizer.param_groups:
        _check_group(name, group)


def _check_group(name: str, group: Mapping[str, Any]) -> None:
    for flag in UNKNOWN_FLAGS:
        if group.get(flag):
            raise Unsupported(f"{name} with {flag}=True is not known.")
    for key in NUMBERS:
        if not isinstance(group.get(key, 0.0), int | float):
            raise Unsupported(f"{name} with a {type(group[key]).__name__} as {key} is not known; a number is.")


def description(optimizer: optim.Optimizer, parameters: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    """What the native classes are told of an optimizer that updates (some of) these parameters of theirs."""
    method = METHODS[type(optimizer)]
    return method, settings(optimizer), _slots(optimizer, method, parameters)


def settings(optimizer: optim.Optimizer) -> list[list[float]]:
    """Its parameter groups, each in the order of native/small/optimizer.hpp's Group."""
    return [_settings(group) for group in optimizer.param_groups]


def _settings(group: Mapping[str, Any]) -> list[float]:
    beta1, beta2 = group.get("betas", (0.0, 0.0))
    return [
        float(group["lr"]),
        float(group.get("weight_decay", 0.0)),
        float(group.get("momentum", 0.0)),
        float(group.get("dampening", 0.0)),
        float(beta1),
        float(beta2),
        float(group.get("eps", 0.0)),
        *(float(bool(group.get(flag))) for flag in FLAGS),
    ]


def form(optimizer: optim.Optimizer) -> list[tuple[Any, ...]]:
    """What decides which state there is: another form means compiling again, other numbers do not."""
    return [
        (
            bool(group.get("momentum")),
            *(bool(group.get(flag)) for flag in UNKNOWN_FLAGS),
            *(isinstance(group.get(key, 0.0), int | float) for key in NUMBERS),
        )
        for group in optimizer.param_groups
    ]


def _slots(optimizer: optim.Optimizer, method: int, parameters: Sequence[torch.Tensor]) -> list[tuple[Any, ...]]:
    """What native/small/optimizer.hpp reads of each parameter of the program that `optimizer` updates: its numbers in
    the program and of its group, its size, addresses of two states and of the count (0: none), and whether the first
    gradient becomes SGD's momentum.

    Missing state is made as torch would make it; `optimizer.state` keeps it alive.
    """
    number_of = {id(p): number for number, p in enumerate(parameters)}
    return [
        (number_of[id(p)], index, p.numel(), *_states(optimizer.state[p], method, p, group))
        for index, group in enumerate(optimizer.param_groups)
        for p in group["params"]
        if id(p) in number_of and p.requires_grad
    ]


def _states(
    state: dict[str, Any], method: int, p: torch.Tensor, group: Mapping[str, Any]
) -> tuple[int, int, int, bool]:
    momentum = "momentum_buffer" if group.get("momentum") else None
    fresh = method == 0 and momentum is not None and state.get(momentum) is None
    names = (momentum, None) if method == 0 else ("exp_avg", "exp_avg_sq")
    first, second = (0 if name is None else _state(state, name, p).data_ptr() for name in names)
    return first, second, 0 if method == 0 else _count(state).data_ptr(), fresh


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
