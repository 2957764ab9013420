"""cached() under samplers, subsets, chains of data sets, torch's own settings."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    Dataset,
    RandomSampler,
    StackDataset,
    Subset,
    WeightedRandomSampler,
    random_split,
)

from hotlap.data import cached
from tests.unit.data.sets import BUILDS, COMPUTED, Counting, Pictures, assert_same_epochs, epochs, equal, seed


@pytest.mark.parametrize(
    "settings",
    [
        lambda: {"drop_last": True},
        lambda: {"shuffle": False, "sampler": WeightedRandomSampler([1.0, 3.0] * 25, 60)},
        lambda: {"batch_size": 1, "shuffle": False, "batch_sampler": [[1, 1, 2], [49], [5, 1]]},
        lambda: {
            "batch_size": 1,
            "shuffle": False,
            "batch_sampler": BatchSampler(RandomSampler(range(50), replacement=True), 7, False),
        },
        lambda: {"shuffle": False, "sampler": torch.arange(50).flip(0)},
        lambda: {"shuffle": False, "sampler": np.arange(0, 50, 3)},
        lambda: {"shuffle": False, "sampler": [-1, -50, 3]},
        lambda: {"generator": torch.Generator().manual_seed(5)},
        lambda: {"batch_size": 1, "shuffle": False, "batch_sampler": [torch.tensor([3, 4]), torch.tensor([5, 6])]},
    ],
)
def test_any_sampler_gives_the_same_batches(settings: Callable[[], dict[str, Any]]) -> None:
    assert_same_epochs(epochs(cached(Pictures()), **settings()), epochs(Pictures(), **settings()))


def test_indices_of_another_type_are_served_once_seen_to_mean_the_same() -> None:
    COMPUTED[100:] = []
    kept = cached(Counting(50))
    epochs(kept, num_epochs=1)
    epochs(kept, num_epochs=2, shuffle=False, sampler=np.arange(50))
    computed = len(COMPUTED)
    kept._hotlap_cache.rechecks.cost_s = float("inf")
    epochs(kept, num_epochs=2, shuffle=False, sampler=np.arange(50))
    assert len(COMPUTED) == computed


def test_an_item_that_tells_the_type_of_its_index_stays_true() -> None:
    class Telling(Pictures):
        def __getitem__(self, index: Any) -> Any:
            return type(index).__name__, int(index)

    kept = cached(Telling())
    epochs(kept)
    assert kept[np.int64(3)] == ("int64", 3)
    assert kept[3] == ("int", 3)
    assert kept[np.int64(3)] == ("int64", 3)


@pytest.mark.parametrize("index", [-1, -50])
def test_negative_indices_reach_the_data_set(index: int) -> None:
    kept = cached(Pictures())
    epochs(kept, num_epochs=1)
    assert equal(kept[index], Pictures()[index])


def test_what_is_no_index_is_the_data_sets_own_business() -> None:
    kept = cached(["a", "b", "c"])
    assert kept[1:] == ["b", "c"]
    with pytest.raises(IndexError):
        kept[3]
    with pytest.raises(TypeError, match="list indices"):
        kept["x"]
    assert list(kept) == ["a", "b", "c"] and len(kept) == 3
    assert list(cached(Pictures(5)))[4][1] == 4


class Grid(Pictures):
    """Items by (row, column) or by name, and by their numbers."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            key = 10 * key[0] + key[1]
        return super().__getitem__(int(key))


KEYS: dict[str, list[Any]] = {
    "tuples": [(place // 10, place % 10) for place in range(300)],
    "texts": [f"{place}" for place in range(300)],
    "numbers from the end": [place - 300 for place in range(300)],
}


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.processes)])
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_items_that_are_asked_for_by_other_keys_are_not_kept(keys: list[Any], num_workers: int) -> None:
    """They were neither kept nor given up, so that whoever waited for the cache waited for ever."""
    settings: dict[str, Any] = {"shuffle": False, "sampler": keys, "num_workers": num_workers, "batch_size": 40}
    kept = cached(Grid(300))
    assert_same_epochs(epochs(kept, **settings), epochs(Grid(300), **settings))
    assert kept._hotlap_settled()
    assert kept.note is not None and kept._hotlap_idle() == kept.note
    assert any(f"asked for items by keys such as {key!r}, not by numbers from 0 to 299" in kept.note for key in keys)


def test_some_looks_at_items_by_other_keys_stop_nothing() -> None:
    kept = cached(Grid(100))
    for key in (-1, (0, 1), "2") * 10:
        assert equal(kept[key], Grid(100)[key])
    assert_same_epochs(epochs(kept), epochs(Grid(100)))
    for key in (-1, (0, 1), "2") * 30:
        assert equal(kept[key], Grid(100)[key])
    assert kept.full and kept.note is None


@pytest.mark.parametrize(
    "around",
    [
        lambda wrap: Subset(wrap(Pictures()), [5, 3, 3, 30]),
        lambda wrap: wrap(Subset(Pictures(), [5, 3, 3, 30])),
        lambda wrap: wrap(Subset(Subset(Pictures(), range(40)), [5, 3, 3, 30])),
        lambda wrap: ConcatDataset([wrap(Pictures()), wrap(Pictures(20))]),
        lambda wrap: wrap(ConcatDataset([Pictures(), Pictures(20)])),
        lambda wrap: StackDataset(wrap(Pictures()), Pictures()),
        lambda wrap: wrap(StackDataset(a=Pictures(), b=Pictures())),
        lambda wrap: random_split(wrap(Pictures()), [0.5, 0.5])[0],
        lambda wrap: wrap(Pictures()) + wrap(Pictures(3)),
        lambda wrap: wrap(wrap(Pictures())),
        lambda wrap: wrap(torch.arange(100.0).view(50, 2)),
        lambda wrap: wrap(np.arange(100.0).reshape(50, 2)),
    ],
)
def test_chains_of_data_sets_give_the_same_batches(around: Callable[[Any], Any]) -> None:
    every: list[dict[str, Any]] = [{}, {"collate_fn": list}]
    for settings in every:
        seed()
        left = epochs(around(cached), **settings)
        seed()
        assert_same_epochs(left, epochs(around(lambda dataset: dataset), **settings))


class FetchesBatches(Pictures):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


class FetchesDict(Pictures):
    def __getitems__(self, indices: list[int]) -> Any:
        return {"x": torch.tensor(indices)}


class Centred(Pictures):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        mean = sum(indices) / len(indices)
        return [torch.tensor(index - mean) for index in indices]


def test_a_data_set_that_fetches_batches_itself_is_asked_for_batches() -> None:
    kept = cached(FetchesBatches())
    assert_same_epochs(epochs(kept), epochs(FetchesBatches()))
    assert kept.full


def test_a_batch_that_is_no_list_is_handed_on() -> None:
    settings: dict[str, Any] = {"collate_fn": lambda batch: batch}
    kept = cached(FetchesDict())
    assert_same_epochs(epochs(kept, **settings), epochs(FetchesDict(), **settings))
    assert kept.note is not None and "as a dict" in kept.note


def test_items_that_depend_on_their_batch_are_found() -> None:
    kept = cached(Centred())
    with pytest.warns(RuntimeWarning, match="came out different"):
        batches = epochs(kept)
    assert_same_epochs(batches, epochs(Centred()))


def test_a_data_set_without_a_length_is_handed_on() -> None:
    class Endless(Dataset[Any]):
        def __getitem__(self, index: int) -> Any:
            return torch.tensor(float(index))

    settings: dict[str, Any] = {"shuffle": False, "sampler": range(20)}
    kept = cached(Endless())
    assert_same_epochs(epochs(kept, **settings), epochs(Endless(), **settings))
    assert kept.note is not None and "does not say how many" in kept.note


def test_collate_functions_registered_by_the_script_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils.data._utils.collate import default_collate_fn_map

    kept = cached(Pictures())
    epochs(kept)
    monkeypatch.setitem(default_collate_fn_map, torch.Tensor, lambda batch, *, collate_fn_map=None: "mine")
    assert_same_epochs(epochs(kept), epochs(Pictures()))
    assert epochs(kept)[0][0][0] == "mine"


def test_the_default_dtype_and_device_are_those_of_the_moment() -> None:
    build = BUILDS["scalars"]
    kept = cached(Pictures(50, build))
    epochs(kept)
    torch.set_default_dtype(torch.float64)
    try:
        assert_same_epochs(epochs(kept), epochs(Pictures(50, build)))
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.device("meta"):
        assert kept.__getitems__([1, 2])[0] == build(1)


def test_inference_mode_does_not_stick_to_what_is_kept() -> None:
    kept = cached(Pictures())
    with torch.inference_mode():
        epochs(kept, num_epochs=1)
    weight = torch.ones(1, requires_grad=True)
    for batch, _ in epochs(kept):
        assert not batch[0].is_inference()
        (batch[0] * weight).sum().backward()
