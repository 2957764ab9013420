"""A torch loss -> its number and settings for the native core, and the check of a target's form."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from hotlap.small.program import Unsupported

FUNCTIONS: dict[Callable[..., Any], type[nn.Module]] = {
    F.mse_loss: nn.MSELoss,
    F.l1_loss: nn.L1Loss,
    F.cross_entropy: nn.CrossEntropyLoss,
    F.binary_cross_entropy_with_logits: nn.BCEWithLogitsLoss,
}

KINDS = {nn.MSELoss: 0, nn.L1Loss: 1, nn.CrossEntropyLoss: 2, nn.BCEWithLogitsLoss: 3}
"""The numbers are shared with native/small/loss.hpp."""


class Criterion(NamedTuple):
    """A loss as the native core knows it, in the order of native/small/loss.hpp."""

    kind: int
    mean: bool
    ignore_index: int = -100

    @property
    def labels(self) -> bool:
        """Whether the target is a class number for each row."""
        return self.kind == KINDS[nn.CrossEntropyLoss]


def recognise(loss: nn.Module | Callable[..., Any]) -> Criterion:
    """The criterion of a torch loss module, or of its function with default settings."""
    module = FUNCTIONS[loss]() if not isinstance(loss, nn.Module) and loss in FUNCTIONS else loss
    if not isinstance(module, nn.Module) or type(module) not in KINDS:
        known = ", ".join(kind.__name__ for kind in KINDS)
        raise Unsupported(f"the loss {getattr(loss, '__name__', type(loss).__name__)} is not known; {known} are.")
    name = type(module).__name__
    if module._forward_hooks or module._forward_pre_hooks:
        raise Unsupported(f"the loss {name} has hooks.")
    if getattr(module, "weight", None) is not None or getattr(module, "pos_weight", None) is not None:
        raise Unsupported(f"{name} with weights is not known.")
    if getattr(module, "label_smoothing", 0.0):
        raise Unsupported(f"{name} with label_smoothing is not known.")
    if module.reduction not in ("mean", "sum"):
        raise Unsupported(f"{name} with reduction={module.reduction!r} is not known; 'mean' and 'sum' are.")
    return Criterion(
        kind=KINDS[type(module)],
        mean=module.reduction == "mean",
        ignore_index=int(getattr(module, "ignore_index", -100)),
    )


def check_target(criterion: Criterion, y: torch.Tensor, *, rows: int, cols: int, squeezed: bool) -> torch.Tensor:
    """`y` as the native core reads it; Unsupported where torch would broadcast, or take it for probabilities."""
    if criterion.labels:
        if y.dtype != torch.int64 or y.shape != (rows,):
            raise Unsupported(
                f"cross entropy takes a class number for each of the {rows} rows (int64); the target is "
                f"{y.dtype} of shape {tuple(y.shape)}."
            )
        return y.contiguous()
    expected = (rows,) if squeezed else (rows, cols)
    if tuple(y.shape) != expected:
        raise Unsupported(f"the target has shape {tuple(y.shape)}, the prediction {expected}.")
    return y.reshape(rows, cols).contiguous()
