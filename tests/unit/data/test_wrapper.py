"""Two functions around one data set: a sentence."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

from hotlap.data import batched, cached, cached_prefix
from hotlap.errors import UserError
from tests.conformance.loops import Photographs

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "cached": cached,
    "batched": batched,
    "cached_prefix": cached_prefix,
}


def tensors() -> TensorDataset:
    return TensorDataset(torch.arange(50.0), torch.arange(50))


@pytest.mark.parametrize(("outer", "inner"), list(permutations(FUNCTIONS, 2)))
def test_two_together_are_a_sentence(outer: str, inner: str) -> None:
    within = FUNCTIONS[inner](tensors())
    with pytest.raises(UserError) as told:
        FUNCTIONS[outer](within)
    sentence = str(told.value)
    assert sentence.startswith(f"{outer}() got what {inner}() returned")
    assert sentence.endswith(f"Leave out {outer}(), or {inner}().")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_twice_is_once(name: str) -> None:
    once = FUNCTIONS[name](tensors())
    assert FUNCTIONS[name](once) is once


def test_is_the_data_set_itself_to_all_who_ask() -> None:
    assert isinstance(cached_prefix(Photographs()), Photographs)
