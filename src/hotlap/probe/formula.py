"""What an optimizer did to its parameters beside what its own formula makes of the same gradients, state and settings.

An independent second opinion in float64, for the optimizers that most scripts use. A learning rate, a decay or a
momentum that is another than the optimizer says, an update left out, doubled or made of other gradients shows here at
once, even where the training looks the same for hundreds of steps.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from hotlap.probe.sampling import sampled

Group = Mapping[str, Any]
Rule = Callable[[torch.Tensor, torch.Tensor, Mapping[str, torch.Tensor], Group], torch.Tensor]
"""(parameter, gradient, state before, settings) -> what the parameter should become; all in float64."""


def departures(optimizer: torch.optim.Optimizer) -> Callable[[], dict[int, float]]:
    """It is about to step. What is returned tells when it has: address of each parameter -> distance of what it is then
    from what it should be, as a part of the change."""
    seen = [*_foreseen(optimizer)]
    return lambda: {id(param): _departure(param, old, expected) for param, old, expected in seen}


def _departure(param: torch.Tensor, old: torch.Tensor, expected: torch.Tensor) -> float:
    moved = float(torch.linalg.vector_norm(expected - old))
    off = float(torch.linalg.vector_norm(_sample(param) - expected))
    # A parameter that hardly moves (a bias in front of a normalisation) moves by less than it is rounded to.
    off = max(0.0, off - torch.finfo(param.dtype).eps * float(torch.linalg.vector_norm(expected)))
    return off / moved if moved > 0 else (0.0 if off == 0 else math.inf)


def _foreseen(optimizer: torch.optim.Optimizer) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Each parameter that is updated; of samples of its elements, in float64, what they are and what they should be."""
    rule = _RULES.get(type(optimizer))
    # Fused kernels leave gradients scaled until they read them; where one overflowed they do nothing.
    scale, overflow = getattr(optimizer, "grad_scale", None), getattr(optimizer, "found_inf", None)
    if rule is None or (overflow is not None and float(overflow)):
        return
    for group in optimizer.param_groups:
        if group.get("differentiable") or group.get("amsgrad"):
            continue
        for param in group["params"]:
            if param.grad is None or param.grad.layout != torch.strided or param.is_complex():
                continue
            grad = _sample(param.grad)
            grad = grad / float(scale) if scale is not None else grad
            state = {name: _of_state(value) for name, value in optimizer.state.get(param, {}).items()}
            old = _sample(param)
            yield param, old, rule(old, -grad if group.get("maximize") else grad, state, group)


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    return sampled(tensor).to(torch.float64, copy=True)


def _of_state(value: Any) -> Any:
    return _sample(value) if isinstance(value, torch.Tensor) and value.dim() else value


def _sgd(old: torch.Tensor, grad: torch.Tensor, state: Mapping[str, torch.Tensor], group: Group) -> torch.Tensor:
    momentum = float(group["momentum"])
    grad = grad + float(group["weight_decay"]) * old
    if momentum:
        buffer = state.get("momentum_buffer")
        # The first gradient becomes the momentum; who makes the state beforehand makes it of zeros.
        fresh = buffer is None or not buffer.any()
        buffer = grad if buffer is None or fresh else momentum * buffer + (1 - float(group["dampening"])) * grad
        grad = grad + momentum * buffer if group["nesterov"] else buffer
    return old - float(group["lr"]) * grad


def _adam(old: torch.Tensor, grad: torch.Tensor, state: Mapping[str, torch.Tensor], group: Group) -> torch.Tensor:
    rate, decay = float(group["lr"]), float(group["weight_decay"])
    beta1, beta2 = (float(beta) for beta in group["betas"])
    step = float(state["step"]) + 1 if "step" in state else 1.0
    if group.get("decoupled_weight_decay"):
        old = old * (1 - rate * decay)
    else:
        grad = grad + decay * old
    zero = torch.zeros_like(grad)
    mean = beta1 * state.get("exp_avg", zero) + (1 - beta1) * grad
    square = beta2 * state.get("exp_avg_sq", zero) + (1 - beta2) * grad * grad
    size = (square / (1 - beta2**step)).sqrt() + float(group["eps"])
    new: torch.Tensor = old - rate * mean / (1 - beta1**step) / size
    return new


def _adamw(old: torch.Tensor, grad: torch.Tensor, state: Mapping[str, torch.Tensor], group: Group) -> torch.Tensor:
    return _adam(old, grad, state, {**group, "decoupled_weight_decay": True})


_RULES: Mapping[type[torch.optim.Optimizer], Rule] = {
    torch.optim.SGD: _sgd,
    torch.optim.Adam: _adam,
    torch.optim.AdamW: _adamw,
}
