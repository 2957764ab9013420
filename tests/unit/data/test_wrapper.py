"""Two functions around one data set: an order that works, or a sentence."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

from hotlap.data import batched, cached, cached_prefix, late
from hotlap.errors import UserError
from tests.conformance.loops import Photographs
from tests.unit.data.sets import assert_same_epochs, epochs

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "cached": cached,
    "batched": batched,
    "cached_prefix": cached_prefix,
    "late": late,
}

GOOD = {("late", "cached_prefix"): "late cached_prefix"}


def tensors() -> TensorDataset:
    return TensorDataset(torch.arange(50.0), torch.arange(50))


def layers(dataset: Any) -> str:
    """The functions that have been there, outermost first."""
    found = []
    while function := getattr(type(dataset), "_hotlap_function", ""):
        found.append(function)
        dataset = dataset._hotlap_dataset
    return " ".join(found)


@pytest.mark.parametrize(("outer", "inner"), list(permutations(FUNCTIONS, 2)))
def test_two_together_are_one_good_order_or_a_sentence(outer: str, inner: str) -> None:
    within = FUNCTIONS[inner](tensors())
    expected = GOOD.get((outer, inner))
    if expected is not None:
        both = FUNCTIONS[outer](within)
        assert layers(both) == expected
        assert_same_epochs(epochs(both), epochs(tensors()))
        return
    with pytest.raises(UserError) as told:
        FUNCTIONS[outer](within)
    sentence = str(told.value)
    assert sentence.startswith(f"{outer}() got what {inner}() returned") and sentence.endswith(".")
    advice = f"Write {inner}({outer}(...))." if (inner, outer) in GOOD else f"Leave out {outer}(), or {inner}()."
    assert sentence.endswith(advice)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_twice_is_once(name: str) -> None:
    once = FUNCTIONS[name](tensors())
    assert FUNCTIONS[name](once) is once


def test_is_the_data_set_itself_to_all_who_ask_also_behind_two_functions() -> None:
    assert isinstance(late(cached_prefix(Photographs())), Photographs)
