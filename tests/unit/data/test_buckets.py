"""Padding on to the next of a few lengths."""

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from hotlap.data import bucketed


def batch(*lengths: int, batch_first: bool = True) -> torch.Tensor:
    return pad_sequence([torch.arange(1, length + 1) for length in lengths], batch_first=batch_first)


def lengths_of(lengths: list[int], *, multiple: int) -> list[int]:
    """One batch after the other, at one call."""
    return [bucketed(batch(length), multiple=multiple).size(1) for length in lengths]


def test_lengths_become_multiples_once_a_longer_batch_was_seen() -> None:
    assert lengths_of([40, 3, 17, 16, 33], multiple=16) == [40, 16, 32, 16, 40]


def test_no_batch_gets_longer_than_the_longest_one_as_written() -> None:
    lengths = torch.randint(1, 100, (500,), generator=torch.Generator().manual_seed(0)).tolist()
    padded = lengths_of(lengths, multiple=16)
    longest = 0
    for before, after in zip(lengths, padded, strict=True):
        longest = max(longest, before)
        assert before <= after <= longest


def test_few_lengths_remain() -> None:
    lengths = torch.randint(1, 100, (500,), generator=torch.Generator().manual_seed(0)).tolist()
    settled = lengths_of(lengths, multiple=16)[100:]
    assert len(set(lengths[100:])) > 90
    assert len(set(settled)) <= 7 + 1


def test_data_stay_and_the_rest_is_the_value_asked_for() -> None:
    found = [bucketed(batch(length), multiple=4, value=-100) for length in (8, 5)]
    assert found[1].tolist() == [[1, 2, 3, 4, 5, -100, -100, -100]]
    assert found[1].dtype == torch.int64
    assert found[1].is_contiguous()


def test_time_may_be_the_first_dimension() -> None:
    found = [bucketed(batch(length, 2, batch_first=False), multiple=4, dim=0) for length in (8, 5)]
    assert [tuple(one.shape) for one in found] == [(8, 2), (8, 2)]
    assert found[1][:, 0].tolist() == [1, 2, 3, 4, 5, 0, 0, 0]


def test_other_dimensions_and_truth_values_are_kept() -> None:
    wide = [bucketed(torch.ones(2, length, 3, dtype=torch.bool), multiple=4) for length in (8, 5)]
    assert wide[1].shape == (2, 8, 3)
    assert int(wide[1].sum()) == 2 * 5 * 3


def test_a_batch_that_fits_is_handed_on_as_it_is() -> None:
    given = batch(8)
    assert bucketed(given, multiple=4) is given


def test_each_call_has_a_longest_batch_of_its_own() -> None:
    pairs = [(bucketed(batch(n), multiple=8), bucketed(batch(n // 4), multiple=8)) for n in (40, 20)]
    assert [(long.size(1), short.size(1)) for long, short in pairs] == [(40, 10), (24, 8)]


def test_a_multiple_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple is 0; it must be at least 1"):
        bucketed(batch(3), multiple=0)
