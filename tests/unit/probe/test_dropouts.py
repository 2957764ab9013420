"""Dropouts: what a forward pass would drop is counted, however it is written, and kept."""

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


KEPT = (lambda p: nn.Dropout(p)(ROWS), lambda p: nn.Dropout1d(p)(ROWS), attention, attention_written_out, head_by_head)


@pytest.mark.parametrize("forward", KEPT)
def test_nothing_is_dropped_and_later_draws_are_the_same(forward: Callable[[float], Tensor]) -> None:
    plain = forward(0.0)
    torch.manual_seed(3)
    forward(0.1)
    next_draw = torch.rand(1)
    torch.manual_seed(3)
    dropouts = Dropouts()
    dropouts.begin()
    torch.testing.assert_close(forward(0.1), plain)
    dropouts.end()
    assert torch.equal(torch.rand(1), next_draw)


@pytest.mark.parametrize("forward", [by_hand, nn.Dropout(0.1).eval()])
def test_other_numbers_are_the_same_with_it(forward: Callable[..., Tensor]) -> None:
    given = (ROWS,) if isinstance(forward, nn.Module) else ()
    torch.manual_seed(3)
    plain = forward(*given)
    torch.manual_seed(3)
    dropouts = Dropouts()
    dropouts.begin()
    assert torch.equal(forward(*given), plain)
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


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        (lambda: ROWS @ ROWS.mT, "4 bytes, highest"),
        (lambda: functional.softmax(ROWS.double(), -1).float(), "4 bytes, highest"),
        (lambda: torch.autocast("cpu", torch.bfloat16)(torch.matmul)(ROWS, ROWS.mT).float(), "2 bytes, highest"),
    ],
)
def test_how_long_the_shortest_numbers_of_a_forward_pass_are(forward: Forward, expected: str) -> None:
    dropouts = Dropouts()
    assert dropouts.precision() is None
    dropouts.begin()
    forward()
    dropouts.end()
    assert dropouts.precision() == expected
