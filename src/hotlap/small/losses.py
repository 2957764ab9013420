"""A torch loss -> its number and settings for the native core; and a script's loss module natively, inside autograd."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from hotlap.small import guards
from hotlap.small.node import direct, is_wrapped
from hotlap.small.program import NUMBERS, Unsupported, native
from hotlap.small.trace import check_plain

FUNCTIONS: dict[Callable[..., Any], type[nn.Module]] = {
    F.mse_loss: nn.MSELoss,
    F.l1_loss: nn.L1Loss,
    F.cross_entropy: nn.CrossEntropyLoss,
    F.binary_cross_entropy_with_logits: nn.BCEWithLogitsLoss,
}

KINDS = {nn.MSELoss: 0, nn.L1Loss: 1, nn.CrossEntropyLoss: 2, nn.BCEWithLogitsLoss: 3}
"""The numbers are shared with native/small/loss.hpp."""


MAX_NUMBERS = 65_536
"""Beyond this the sums of a script's loss are the work, in which torch has several threads."""


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
    check_plain(module)
    name = type(module).__name__
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


class NativeLoss:
    """What is known of one loss module; it does not keep the module alive.

    Args:
        module: any.
        eager: `eager(module, prediction, target)` is the same in torch, where a second derivative is wanted.
    """

    def __init__(self, module: nn.Module, eager: Callable[..., torch.Tensor]) -> None:
        self._criterion = recognise(module)
        self._native = {dtype: native(dtype).loss for dtype in NUMBERS}
        self.eager = eager
        self.holds: Callable[[], bool] = guards.reading(module).guard.holds
        """Whether the module is still what it was."""

    def takes(self, prediction: torch.Tensor, target: torch.Tensor) -> bool:
        """Whether torch would do the same with these: nothing is broadcast, and no target is a probability."""
        if type(prediction) is not torch.Tensor or type(target) is not torch.Tensor:
            return False
        if prediction.dtype not in NUMBERS or prediction.dim() != 2 or not prediction.requires_grad:
            return False
        if target.requires_grad or not (prediction.is_contiguous() and target.is_contiguous()):
            return False
        if not prediction.is_cpu or not target.is_cpu or not 0 < prediction.numel() <= MAX_NUMBERS:
            return False
        if self._criterion.labels:
            return target.dtype is torch.int64 and target.shape == prediction.shape[:1]
        return target.dtype is prediction.dtype and target.shape == prediction.shape

    def __call__(self, module: nn.Module, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The loss, with its gradient; no transform of functorch is at work."""
        apply = _apply_directly if not (is_wrapped(prediction) or is_wrapped(target)) else Loss.apply
        out: torch.Tensor = apply(self, module, prediction, target)
        return out

    def fill(self, prediction: torch.Tensor, target: torch.Tensor, gradient: torch.Tensor, out: torch.Tensor) -> None:
        """Write the loss to `out` and its gradient to `gradient`."""
        rows, cols = prediction.shape
        where = prediction.data_ptr(), target.data_ptr(), rows, cols, gradient.data_ptr(), out.data_ptr()
        self._native[prediction.dtype](self._criterion, *where)


class Loss(torch.autograd.Function):
    """A loss and, computed with it, its gradient."""

    @staticmethod
    def forward(ctx: Any, loss: NativeLoss, module: nn.Module, prediction: torch.Tensor, target: torch.Tensor) -> Any:
        """The loss."""
        gradient, out = torch.empty_like(prediction), prediction.new_empty(())
        loss.fill(prediction, target, gradient, out)
        ctx.save_for_backward(gradient)
        ctx.loss, ctx.module, ctx.given = loss, module, (prediction, target)
        ctx.versions = prediction._version, target._version
        ctx.over = False
        """A way back was gone that autograd does not know of."""
        return out

    @staticmethod
    def backward(ctx: Any, to_loss: torch.Tensor | None) -> Any:
        """Of what forward() was given: of the prediction alone."""
        found = to_prediction(ctx, to_loss)
        if not torch.is_grad_enabled():
            return None, None, found, None
        # create_graph=True: a second derivative is to come
        if ctx.versions != tuple(given._version for given in ctx.given):
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation "
                "(the prediction, or the target of the loss)."
            )
        value = ctx.loss.eager(ctx.module, *ctx.given)
        return None, None, *torch.autograd.grad(value, ctx.given[0], to_loss, create_graph=True), None


def to_prediction(ctx: Any, to_loss: torch.Tensor | None) -> torch.Tensor:
    """The gradient of the prediction, given that of the loss: None is one of 1."""
    if ctx.over:
        raise RuntimeError("Trying to backward through the graph a second time: its buffers are gone.")
    found: torch.Tensor = ctx.saved_tensors[0]
    return found if to_loss is None or to_loss.item() == 1 else found * to_loss


_apply_directly = direct(Loss)
