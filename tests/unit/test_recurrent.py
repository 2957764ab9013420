"""Recurrent layers over packed sequences give the same padded: outputs, last states, gradients, random numbers."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from hotlap.levers import Patch
from hotlap.recurrent import MAX_WASTE, PaddedLayers

EACH = pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])


@pytest.fixture
def layers() -> Iterator[PaddedLayers]:
    """Installed, and taken out again."""
    patch, layers = Patch(), PaddedLayers()
    layers.install(patch.set)
    yield layers
    patch.undo()


def packed(lengths: list[int], features: int, *, dtype: torch.dtype = torch.float32) -> PackedSequence:
    """Of random numbers that get gradients."""
    padded = torch.randn(len(lengths), max(lengths), features, dtype=dtype)
    batch = pack_padded_sequence(padded, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    batch.data.requires_grad_()
    return batch


def flat(result: Any) -> list[torch.Tensor]:
    """(packed outputs, states) -> tensors."""
    out, states = result
    return [out.data, *(states if isinstance(states, tuple) else (states,))]


def everything(layer: nn.RNNBase, batch: PackedSequence, hx: Any = None) -> list[torch.Tensor]:
    """What comes out, the gradients of a loss of all of it, and the random state behind it."""
    torch.manual_seed(3)
    layer.zero_grad()
    given = flat((batch, hx))[1:] if hx is not None else []
    for tensor in (batch.data, *given):
        tensor.grad = None
    found = flat(layer(batch, hx))
    weights = [torch.linspace(-1, 2, tensor.numel()).view_as(tensor) for tensor in found]
    sum((tensor * weight).sum() for tensor, weight in zip(found, weights, strict=True)).backward()  # type: ignore[union-attr]
    gradients = [tensor.grad for tensor in (batch.data, *given, *layer.parameters())]
    assert all(gradient is not None for gradient in gradients)
    return [*(tensor.detach() for tensor in found), *(g.clone() for g in gradients if g is not None), torch.rand(3)]


def both(
    layer: nn.RNNBase, batch: PackedSequence, hx: Any = None
) -> tuple[list[torch.Tensor], list[torch.Tensor], PaddedLayers]:
    """As torch does it, and padded."""
    expected = everything(layer, batch, hx)
    patch, layers = Patch(), PaddedLayers()
    layers.install(patch.set)
    try:
        return expected, everything(layer, batch, hx), layers
    finally:
        patch.undo()


def assert_same(expected: list[torch.Tensor], found: list[torch.Tensor]) -> None:
    assert [tensor.shape for tensor in found] == [tensor.shape for tensor in expected]
    for one, other in zip(expected, found, strict=True):
        scale = float(one.abs().max()) if one.numel() else 1.0
        torch.testing.assert_close(other, one, rtol=1e-4, atol=2e-5 * max(scale, 1e-3))


@st.composite
def layers_of_all_kinds(draw: st.DrawFn) -> nn.RNNBase:
    """With every choice that torch gives, but projections."""
    kind: Any = draw(st.sampled_from([nn.LSTM, nn.GRU]))
    num_layers = draw(st.integers(1, 3))
    torch.manual_seed(0)
    layer: nn.RNNBase = kind(
        draw(st.integers(1, 9)),
        draw(st.integers(1, 17)),
        num_layers,
        bias=draw(st.booleans()),
        bidirectional=draw(st.booleans()),
        dropout=draw(st.sampled_from([0.0, 0.4])) if num_layers > 1 else 0.0,
    )
    return layer.train(draw(st.booleans()))


@given(layer=layers_of_all_kinds(), lengths=st.lists(st.integers(1, 12), min_size=1, max_size=6))
def test_the_same_as_packed(layer: nn.RNNBase, lengths: list[int]) -> None:
    expected, found, known = both(layer, packed(lengths, layer.input_size))
    assert_same(expected, found)
    waste = len(lengths) * max(lengths) / sum(lengths)
    assert (known.num_padded == 1) == (waste <= MAX_WASTE)


@EACH
def test_states_to_start_from_are_taken_in_the_order_of_the_batch(kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    made: Any = kind
    layer = made(3, 5, 2)
    states = [torch.randn(2, 4, 5, requires_grad=True) for _ in range(1 + (kind is nn.LSTM))]
    hx = tuple(states) if kind is nn.LSTM else states[0]
    expected, found, known = both(layer, packed([2, 6, 3, 6], 3), hx)
    assert known.num_padded == 1
    assert_same(expected, found)


def test_other_defaults_of_torch_and_a_list_of_states_change_nothing(layers: PaddedLayers) -> None:
    layer, batch, states = nn.LSTM(3, 4), packed([2, 4], 3), [torch.ones(1, 2, 4), torch.ones(1, 2, 4)]
    expected = flat(layer(batch, tuple(states)))
    try:
        torch.set_default_device("meta")
        torch.set_default_dtype(torch.float64)
        out, found = layer(batch, states)
        again, _ = pad_packed_sequence(out)
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    assert layers.num_padded == 2
    assert again.device.type == "cpu"
    assert all(map(torch.equal, flat((out, found)), expected))


def test_dropout_between_layers_draws_the_same_numbers() -> None:
    layer = nn.LSTM(4, 6, 3, dropout=0.5, bidirectional=True)
    expected, found, known = both(layer, packed([5, 9, 7], 4))
    assert known.num_padded == 1
    assert_same(expected, found)


def test_frozen_weights_get_no_gradient(layers: PaddedLayers) -> None:
    layer = nn.LSTM(3, 4)
    layer.weight_hh_l0.requires_grad_(False)
    out, _ = layer(packed([4, 2], 3))
    out.data.sum().backward()
    assert layers.num_padded == 1
    assert layer.weight_hh_l0.grad is None
    assert layer.weight_ih_l0.grad is not None


def test_the_script_unpacks_what_it_packed(layers: PaddedLayers) -> None:
    layer = nn.GRU(3, 4, batch_first=True)
    padded, lengths = pad_packed_sequence(layer(packed([2, 5, 4], 3))[0], batch_first=True, padding_value=-7.0)
    assert layers.num_padded == 1
    assert lengths.tolist() == [2, 5, 4]
    assert (padded[0, 2:] == -7.0).all()


def test_copies_and_evaluation_are_served_too(layers: PaddedLayers) -> None:
    layer = copy.deepcopy(nn.LSTM(3, 4)).eval()
    with torch.no_grad():
        layer(packed([4, 2], 3))
    assert layers.num_padded == 1


def test_what_is_not_packed_is_torchs_own(layers: PaddedLayers) -> None:
    layer = nn.LSTM(3, 4)
    x = torch.randn(5, 2, 3)
    expected = nn.LSTM.forward.__wrapped__(layer, x)  # type: ignore[attr-defined]
    assert torch.equal(layer(x)[0], expected[0])
    assert (layers.num_padded, layers.refused) == (0, None)


@pytest.mark.parametrize(
    ("layer", "lengths", "hx", "reason"),
    [
        (nn.LSTM(3, 4, proj_size=2), [4, 2], None, "projections"),
        (nn.LSTM(3, 4).double(), [4, 2], None, "no float32"),
        (nn.GRU(3, 4, bidirectional=True), [4, 2], torch.randn(2, 2, 4), "a state to start from"),
        (nn.LSTM(3, 4), [40, 1, 1, 1, 1], None, "lengths differ so much"),
    ],
)
def test_what_it_does_not_serve_is_torchs_own_and_told(
    layers: PaddedLayers, layer: nn.RNNBase, lengths: list[int], hx: Any, reason: str
) -> None:
    batch = packed(lengths, 3, dtype=next(layer.parameters()).dtype)
    forward: Any = type(layer).forward
    expected = forward.__wrapped__(layer, batch, hx)
    assert all(torch.equal(a, b) for a, b in zip(flat(layer(batch, hx)), flat(expected), strict=True))
    assert layers.num_padded == 0
    assert reason in str(layers.refused)


def test_under_autocast_it_is_torchs_own(layers: PaddedLayers) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        nn.LSTM(3, 4)(packed([4, 2], 3))
    assert layers.num_padded == 0
    assert "autocast" in str(layers.refused)


@EACH
def test_wrong_input_is_an_error_of_torchs(layers: PaddedLayers, kind: type[nn.RNNBase]) -> None:
    made: Any = kind
    layer, state = made(4, 5), torch.randn(1, 2, 6)
    with pytest.raises(RuntimeError, match="Expected 4, got 3"):
        layer(packed([4, 2], 3))
    with pytest.raises(RuntimeError, match=r"Expected hidden(\[0\])? size \(1, 2, 5\), got \[1, 2, 6\]"):
        layer(packed([4, 2], 4), (state, state) if kind is nn.LSTM else state)


def test_installing_twice_is_installing_once() -> None:
    patch, known = Patch(), PaddedLayers()
    before = nn.LSTM.forward
    known.install(patch.set)
    once = nn.LSTM.forward
    known.install(patch.set)
    assert nn.LSTM.forward is once
    patch.undo()
    assert nn.LSTM.forward is before
    assert not known.installed


def packings(
    padded: torch.Tensor, lengths: torch.Tensor, total: int | None, *, batch_first: bool, enforce_sorted: bool
) -> list[torch.Tensor]:
    """Packed, unpacked again, and what flows back."""
    source = padded.clone().requires_grad_(padded.is_floating_point())
    batch = pack_padded_sequence(source, lengths, batch_first=batch_first, enforce_sorted=enforce_sorted)
    again, back = pad_packed_sequence(batch, batch_first=batch_first, padding_value=3.0, total_length=total)
    found = [batch.data, batch.batch_sizes, again, back]
    if source.requires_grad:
        (again * torch.linspace(1, 2, again.numel()).view(again.shape)).sum().backward()  # type: ignore[no-untyped-call]
        assert source.grad is not None
        found.append(source.grad)
    return [tensor.detach() for tensor in found]


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    features=st.sampled_from([(), (3,), (2, 3)]),
    beyond=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.int64, torch.bool]),
    batch_first=st.booleans(),
)
def test_packing_and_unpacking_are_torchs(
    lengths: list[int], features: tuple[int, ...], beyond: tuple[int, int], dtype: torch.dtype, batch_first: bool
) -> None:
    longest = max(lengths) + beyond[0]
    shape = (len(lengths), longest) if batch_first else (longest, len(lengths))
    padded = torch.randint(0, 5, (*shape, *features)).to(dtype)
    total = max(lengths) + beyond[1] if beyond[1] else None
    enforce_sorted = lengths == sorted(lengths, reverse=True)
    words: Any = {"batch_first": batch_first, "enforce_sorted": enforce_sorted}
    expected = packings(padded, torch.tensor(lengths), total, **words)
    patch = Patch()
    PaddedLayers().install(patch.set)
    try:
        found = packings(padded, torch.tensor(lengths), total, **words)
    finally:
        patch.undo()
    assert all(map(torch.equal, expected, found))
    assert [one.dtype for one in found] == [one.dtype for one in expected]
    assert [one.stride() for one in found[:4]] == [one.stride() for one in expected[:4]], "torch's own views"


@pytest.mark.parametrize(
    ("lengths", "words"),
    [([2, 4], "sorted in decreasing order"), ([4, 0], "greater than 0"), ([4], "equal to batch_size")],
)
def test_what_cannot_be_packed_is_an_error_of_torchs(layers: PaddedLayers, lengths: list[int], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        pack_padded_sequence(torch.randn(2, 5, 3), lengths, batch_first=True)
