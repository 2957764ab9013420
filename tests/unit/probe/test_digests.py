"""Digests of batches: equal where batches are."""

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from hotlap.probe.evidence import Digest

WORDS = [torch.tensor([5, 9, 2]), torch.tensor([7, 2]), torch.tensor([4, 4, 8, 2])]
LENGTHS = torch.tensor([3, 2, 4])


def digests(batch: object) -> str:
    made = Digest()
    made.add(batch)
    found = made.take()
    assert found is not None
    return found


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
    assert digests(other) != as_written


def test_every_kind_of_leaf_is_taken_in() -> None:
    scalar, labels, empty = torch.tensor(1.0), torch.tensor([1, 1, 1]), torch.empty(0, 3)
    assert digests([scalar, labels, empty, "text", {"k": 1}]) == digests([scalar, labels, empty, "text", {"k": 1}])
    assert digests(labels) != digests(torch.tensor([1, 1]))
    assert digests(["text"]) != digests(["other"])
    assert Digest().take() is None
