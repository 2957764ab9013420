"""Two functions around one data set: an order that works, or a sentence; levers find the order themselves."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from hotlap.data import batched, cached, cached_prefix, lasting, late, overlapped
from hotlap.errors import UserError
from hotlap.levers.cached_dataset import CachedDataset
from hotlap.levers.cached_prefix import CachedPrefix
from hotlap.levers.late_transform import LateTransform
from hotlap.levers.lever import Lever, Patch
from hotlap.levers.no_epoch_gap import NoEpochGap
from hotlap.levers.pin_and_overlap import PinAndOverlap
from tests.unit.data.sets import Pictures, assert_same_epochs, epochs

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "cached": cached,
    "batched": batched,
    "cached_prefix": cached_prefix,
    "late": late,
    "lasting": lasting,
    "overlapped": overlapped,
}

GOOD = {
    ("lasting", "cached"): "cached",  # which needs no workers
    ("lasting", "batched"): "batched",
    ("lasting", "cached_prefix"): "lasting cached_prefix",
    ("lasting", "late"): "lasting late",
    ("late", "cached_prefix"): "late cached_prefix",
    ("overlapped", "late"): "overlapped late",
    ("overlapped", "cached"): "overlapped cached",
    ("overlapped", "batched"): "overlapped batched",
    ("overlapped", "cached_prefix"): "overlapped cached_prefix",
    ("overlapped", "lasting"): "overlapped lasting",
}


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


LEVERS: dict[str, Lever] = {
    "cached": CachedDataset(),
    "cached_prefix": CachedPrefix(),
    "late": LateTransform(),
    "lasting": NoEpochGap(),
    "overlapped": PinAndOverlap(),
}


@pytest.mark.parametrize("names", [*permutations(LEVERS, 2), *permutations(LEVERS, 3)], ids=" then ".join)
def test_levers_come_to_the_same_in_any_order(names: tuple[str, ...]) -> None:
    patches = []
    try:
        for name in names:
            patches.append(Patch())
            LEVERS[name].install(patches[-1])
        found = layers(DataLoader(Pictures(), batch_size=8).dataset)
    finally:
        for patch in reversed(patches):
            patch.undo()
    kinds = found.split()
    assert kinds == sorted(kinds, key=["overlapped", "lasting", "late", "cached_prefix", "cached"].index)
    assert "cached" not in kinds or not {"cached_prefix", "late"} & set(kinds), "nothing is left to do"
    if "cached" not in names:
        assert set(kinds) == set(names)
    assert ("overlapped" in kinds) == ("overlapped" in names)
    if "cached" in kinds:
        assert "cached" in names and "lasting" not in kinds, "whose workers would have nothing to do"
    elif "cached_prefix" in kinds or "late" in kinds:
        assert ("lasting" in kinds) == ("lasting" in names)


@pytest.mark.parametrize("name", LEVERS)
def test_what_the_script_has_put_there_is_no_trouble_for_a_lever(name: str) -> None:
    patch = Patch()
    LEVERS[name].install(patch)
    try:
        for by_hand in FUNCTIONS.values():
            loader = DataLoader(by_hand(tensors()), batch_size=8)
            assert_same_epochs([(batch, ()) for batch in loader], [(batch, ()) for batch in DataLoader(tensors(), 8)])
    finally:
        patch.undo()
