"""windows(): what stacking the slices gives, whatever they are; and the same errors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotlap.data import windows


def stacked(values: Any, starts: Any, first: Any, stop: Any, *, astype: Any = None) -> torch.Tensor:
    """As a script writes it."""
    if astype is None:
        return torch.stack([values[i + first : i + stop] for i in starts])
    return torch.stack([torch.from_numpy(values[i + first : i + stop].astype(astype)) for i in starts])


def steps(tensor: torch.Tensor) -> list[int]:
    """Strides; of a dimension with one element none, for there it is never used and may be anything."""
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


def assert_same(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert type(found) is type(expected) and found.dtype == expected.dtype and found.shape == expected.shape
    assert steps(found) == steps(expected) and found.requires_grad == expected.requires_grad
    assert found.is_contiguous() and found.storage_offset() == 0
    assert torch.equal(found.contiguous().view(torch.uint8), expected.contiguous().view(torch.uint8))


VALUES: dict[str, Callable[[], Any]] = {
    "text": lambda: torch.arange(100),
    "bytes": lambda: torch.arange(100, dtype=torch.uint8),
    "halves": lambda: torch.randn(100).bfloat16(),
    "not a number": lambda: torch.full((100,), float("nan")),
    "rows": lambda: torch.randn(100, 3),
    "pictures": lambda: torch.randn(100, 2, 5),
    "every second": lambda: torch.arange(200)[::2],
    "transposed": lambda: torch.randn(3, 100).T,
    "gradient": lambda: torch.randn(100, requires_grad=True),
    "parameter": lambda: torch.nn.Parameter(torch.randn(100)),
}


@pytest.mark.parametrize("name", VALUES)
@settings(max_examples=40)
@given(
    starts=st.lists(st.integers(-3, 103), min_size=1, max_size=5),
    first=st.integers(-3, 3),
    stop=st.integers(-2, 30),
)
def test_it_is_the_stack_of_the_slices_or_the_same_error(name: str, starts: list[int], first: int, stop: int) -> None:
    values, index = VALUES[name](), torch.tensor(starts)
    try:
        expected = stacked(values, index, first, stop)
    except RuntimeError as error:
        with pytest.raises(RuntimeError) as raised:
            windows(values, index, first, stop)
        assert str(raised.value) == str(error)
    else:
        assert_same(windows(values, index, first, stop), expected)


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("shape", [(100,), (100, 3)])
@pytest.mark.parametrize("starts", [[0, 5, 88, 5], [92, 3]])
def test_arrays_become_tensors_of_the_type_asked_for(
    mapped: bool, shape: tuple[int, ...], starts: list[int], tmp_path: Path
) -> None:
    values: Any = np.random.default_rng(0).integers(0, 60000, shape).astype(np.uint16)
    if mapped:
        values.tofile(tmp_path / "train.bin")
        values = np.memmap(tmp_path / "train.bin", dtype=np.uint16, mode="r", shape=shape)
    for first, stop in ((0, 8), (1, 9)):
        if max(starts) + stop > 100:
            with pytest.raises(RuntimeError, match="equal size"):
                windows(values, torch.tensor(starts), first, stop, astype=np.int64)
            continue
        expected = stacked(values, torch.tensor(starts), first, stop, astype=np.int64)
        assert_same(windows(values, torch.tensor(starts), first, stop, astype=np.int64), expected)


@pytest.mark.parametrize(
    "starts",
    [[1, 5], torch.tensor([1, 5], dtype=torch.int32), torch.tensor([100, 5], dtype=torch.uint8), np.array([1, 5])],
    ids=["list", "int32", "uint8", "array"],
)
def test_starts_of_other_kinds_are_served_as_written(starts: Any) -> None:
    values = torch.arange(300)
    assert_same(windows(values, starts, 1, 9), stacked(values, starts, 1, 9))


def test_without_a_piece_the_error_is_torchs_own() -> None:
    with pytest.raises(RuntimeError, match="expects a non-empty TensorList"):
        windows(torch.arange(9), torch.tensor([], dtype=torch.int64), 0, 3)


def test_a_batch_is_the_scripts_own() -> None:
    values = torch.arange(50)
    batch = windows(values, torch.tensor([0, 1]), 0, 4)
    batch.zero_()
    assert torch.equal(values, torch.arange(50))


def test_no_random_number_is_drawn() -> None:
    before = torch.get_rng_state()
    windows(torch.arange(50), torch.tensor([0, 1]), 0, 4)
    assert torch.equal(torch.get_rng_state(), before)


def test_pieces_within_the_values_are_not_sliced(monkeypatch: pytest.MonkeyPatch) -> None:
    def stack(*_: object) -> None:
        raise AssertionError("sliced")

    monkeypatch.setattr(torch, "stack", stack)
    starts = torch.tensor([0, 40])
    assert windows(torch.arange(50), starts, 1, 10).shape == (2, 9)
    assert windows(np.arange(50), starts, 1, 10, astype=np.int64).shape == (2, 9)
