"""Dropouts: what a forward pass drops is counted, however it is written, and nothing else of it changes."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from hotlap.probe.dropouts import Dropouts

Forward = Callable[[], Tensor]
HEADS = torch.randn(2, 4, 6, 8, generator=torch.Generator().manual_seed(0))
LAYERS, SELF_ATTENTION = nn.LSTM(8, 8, num_layers=3, dropout=0.2), nn.MultiheadAttention(8, 2, dropout=0.1)
ROWS = torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(1))


def attention(p: float) -> Tensor:
    return functional.scaled_dot_product_attention(HEADS, HEADS, HEADS, dropout_p=p)


def attention_written_out(p: float) -> Tensor:
    return functional.dropout((HEADS @ HEADS.transpose(-2, -1) / 8**0.5).softmax(-1), p) @ HEADS


def head_by_head(p: float) -> Tensor:
    return torch.stack([functional.dropout((q @ q.transpose(-2, -1)).softmax(-1), p) @ q for q in HEADS.unbind(1)], 1)


def stochastic_depth() -> Tensor:
    return ROWS * torch.empty(3, 1, 1).bernoulli_(0.75)


def by_hand() -> Tensor:
    return ROWS * (torch.rand_like(ROWS) < 0.9)


def counted(forward: Forward) -> set[tuple[float | None, int, int]]:
    dropouts = Dropouts()
    dropouts.begin()
    forward()
    dropouts.end()
    return set(dropouts.found() or ())


@pytest.mark.parametrize(
    ("forward", "found"),
    [
        (lambda: nn.Dropout(0.1)(ROWS), {(0.1, 1, 144)}),
        (lambda: nn.Dropout(0.1).eval()(ROWS), set()),
        (lambda: nn.Dropout(0.0)(ROWS), set()),
        (lambda: nn.Dropout1d(0.3)(ROWS), {(0.3, 1, 18)}),
        (lambda: attention(0.1), {(0.1, 1, 288)}),
        (lambda: attention(0.0), set()),
        (lambda: attention_written_out(0.1), {(0.1, 1, 288)}),
        (lambda: head_by_head(0.1), {(0.1, 4, 288)}),
        (lambda: LAYERS(ROWS)[0], {(0.2, 2, 288)}),
        (lambda: SELF_ATTENTION(ROWS, ROWS, ROWS)[0], {(0.1, 1, 108)}),
        (stochastic_depth, {(0.25, 1, 3)}),
        (by_hand, {(None, 1, 144)}),
    ],
)
def test_what_is_dropped_is_counted_by_its_probability(
    forward: Forward, found: set[tuple[float | None, int, int]]
) -> None:
    assert counted(forward) == found


@pytest.mark.parametrize("forward", [lambda: attention(0.1), lambda: nn.Dropout(0.1)(ROWS), stochastic_depth, by_hand])
def test_the_numbers_are_the_same_with_it(forward: Forward) -> None:
    torch.manual_seed(3)
    plain = forward()
    torch.manual_seed(3)
    dropouts = Dropouts()
    dropouts.begin()
    assert torch.equal(forward(), plain)
    dropouts.end()


def test_passes_of_one_step_add_up_and_what_comes_between_them_does_not_count() -> None:
    dropouts = Dropouts()
    assert dropouts.found() is None
    for _ in range(2):
        dropouts.begin()
        nn.Dropout(0.1)(ROWS)
        dropouts.end()
        dropouts.end()
        nn.Dropout(0.1)(ROWS)
    assert dropouts.found() == ((0.1, 2, 288),)
