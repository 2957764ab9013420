"""Digests of batches: equal where batches are, and told apart from padding."""

from collections.abc import Sequence

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from hotlap.probe.evidence import Digest, Digests

WORDS = [torch.tensor([5, 9, 2]), torch.tensor([7, 2]), torch.tensor([4, 4, 8, 2])]
VECTORS = [torch.randn(n, 3, generator=torch.Generator().manual_seed(n)) for n in (3, 2, 4)]
LENGTHS = torch.tensor([3, 2, 4])


def digests(batch: object) -> Digests:
    made = Digest()
    made.add(batch)
    found = made.take()
    assert found is not None
    return found


def longer(tensor: torch.Tensor, *, by: int, dim: int, value: float) -> torch.Tensor:
    shape = [*tensor.shape]
    shape[dim] = by
    return torch.cat([tensor, tensor.new_full(shape, value)], dim)


@pytest.mark.parametrize("sequences", [WORDS, VECTORS, [one.bool() for one in WORDS], [one.half() for one in VECTORS]])
@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("dim", [0, 1])
def test_more_padding_changes_the_whole_and_not_what_is_left_without_it(
    sequences: Sequence[torch.Tensor], value: float, dim: int
) -> None:
    padded = pad_sequence(list(sequences), batch_first=dim == 1, padding_value=value)
    as_written = digests((padded, LENGTHS))
    further = digests((longer(padded, by=5, dim=dim, value=value), LENGTHS))
    assert further.whole != as_written.whole
    assert further.unpadded[dim] == as_written.unpadded[dim]


def test_padding_of_nan_is_padding() -> None:
    padded = pad_sequence(VECTORS, batch_first=True, padding_value=float("nan"))
    assert digests(longer(padded, by=2, dim=1, value=float("nan"))).unpadded[1] == digests(padded).unpadded[1]


def test_sequences_that_all_end_alike_lose_no_more_than_their_end() -> None:
    same_end = torch.tensor([[5, 9, 2], [7, 8, 2]])
    assert digests(longer(same_end, by=4, dim=1, value=0)).unpadded[1] == digests(same_end).unpadded[1]
    assert digests(torch.tensor([[5, 9, 2], [7, 6, 2]])).unpadded[1] != digests(same_end).unpadded[1]


@pytest.mark.parametrize(
    "other",
    [
        (pad_sequence([*WORDS[:2], torch.tensor([4, 4, 1, 2])], batch_first=True), LENGTHS),
        (pad_sequence(WORDS[::-1], batch_first=True), LENGTHS),
        (pad_sequence(WORDS, batch_first=True), LENGTHS + 1),
        (pad_sequence(WORDS, batch_first=True).int(), LENGTHS),
        # Padded on the left.
        (pad_sequence(WORDS, batch_first=True).roll(1, 1), LENGTHS),
    ],
)
def test_other_data_are_other_data(other: object) -> None:
    as_written = digests((pad_sequence(WORDS, batch_first=True), LENGTHS))
    assert digests(other).whole != as_written.whole
    assert digests(other).unpadded[1] != as_written.unpadded[1]


def test_what_is_not_padded_is_taken_whole() -> None:
    scalar, labels, empty = torch.tensor(1.0), torch.tensor([1, 1, 1]), torch.empty(0, 3)
    assert digests([scalar, labels, empty, "text", {"k": 1}]) == digests([scalar, labels, empty, "text", {"k": 1}])
    assert digests(labels).unpadded != digests(torch.tensor([1, 1])).unpadded
    assert digests(["text"]).unpadded != digests(["other"]).unpadded
    assert Digest().take() is None
