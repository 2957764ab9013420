"""Loss modules under native_steps(): torch's values and derivatives; what is not known is left to torch."""

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import nn

from hotlap.native import core
from tests.unit.small.test_script_steps import Y, installed

pytestmark = pytest.mark.skipif(core().module is None, reason=f"no native core: {core().why_not}")

LOSSES: dict[str, Any] = {
    "mse": nn.MSELoss,
    "l1": nn.L1Loss,
    "cross-entropy": lambda reduction: nn.CrossEntropyLoss(ignore_index=1, reduction=reduction),
    "bce": nn.BCEWithLogitsLoss,
}


def of(prediction: torch.Tensor, name: str) -> torch.Tensor:
    """A target."""
    drawn = torch.rand(prediction.shape, dtype=prediction.dtype, generator=torch.Generator().manual_seed(2))
    return drawn.argmax(1) if name == "cross-entropy" else drawn


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("shape", [(7, 3), (5, 16), (3, 40), (1, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_loss_module_and_both_derivatives_are_torchs(
    name: str, reduction: str, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    start = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(1))

    def found() -> tuple[str, list[torch.Tensor]]:
        x = start.clone().requires_grad_()
        loss = LOSSES[name](reduction=reduction)(x.tanh() * 3, of(x, name))
        (first,) = torch.autograd.grad(loss * 2, x, retain_graph=True)
        (again,) = torch.autograd.grad(loss * 2, x, create_graph=True)
        (second,) = torch.autograd.grad(again.square().sum(), x)
        return type(loss.grad_fn).__name__, [loss.detach(), first, again.detach(), second]

    _, expected = found()
    with installed():
        node, got = found()
    assert node == "LossBackward"
    for mine, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4 if dtype == torch.float32 else 1e-9, atol=1e-6)


OTHER_LOSSES: dict[str, tuple[nn.Module, torch.Tensor]] = {
    "weights": (nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0])), Y),
    "smoothing": (nn.CrossEntropyLoss(label_smoothing=0.1), Y),
    "probabilities": (nn.CrossEntropyLoss(), torch.full((64, 3), 1 / 3)),
    "each row's": (nn.CrossEntropyLoss(reduction="none"), Y),
    "a target that is broadcast": (nn.MSELoss(), torch.zeros(64, 3)[:, :1].expand(64, 3)),
    "a target of another type": (nn.MSELoss(), torch.zeros(64, 3, dtype=torch.float64)),
    "not known": (nn.MultiMarginLoss(), Y),
}


@pytest.mark.parametrize("name", OTHER_LOSSES)
def test_other_losses_are_left_to_torch(name: str) -> None:
    criterion, target = OTHER_LOSSES[name]
    prediction = torch.randn(64, 3, requires_grad=True)
    expected = criterion(prediction, target)
    with installed():
        got = criterion(prediction, target)
    assert type(got.grad_fn) is type(expected.grad_fn)
    assert torch.equal(got, expected)


def test_what_is_changed_at_a_loss_counts_from_the_next_call_on() -> None:
    criterion, heard = nn.CrossEntropyLoss(), []
    prediction = torch.randn(64, 3, requires_grad=True)
    with installed() as steps:
        mean = criterion(prediction, Y)
        criterion.reduction = "sum"
        torch.testing.assert_close(criterion(prediction, Y), mean * 64)
        criterion.reduction = "mean"
        criterion.register_forward_hook(lambda *_: heard.append(1))
        criterion(prediction, Y)
        assert heard == [1]
        gone = weakref.ref(criterion)
        del criterion, mean  # whose graph may be asked for a second derivative
        gc.collect()
        assert gone() is None and not steps._losses._table


def test_a_loss_is_gone_backward_once_and_labels_have_to_name_a_column() -> None:
    criterion, prediction = nn.CrossEntropyLoss(), torch.randn(64, 3, requires_grad=True)
    with installed():
        loss = criterion(prediction, Y)
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
        with pytest.raises(IndexError):
            criterion(prediction, Y + 1)
