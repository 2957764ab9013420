"""cached(): the same batches, sooner, for any kind of item; and the data set itself to all who look."""

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    TensorDataset,
    default_collate,
)

from hotlap.data import cached
from hotlap.errors import UserError
from tests.unit.data.sets import BUILDS, COMPUTED, Counting, Pictures, assert_same_epochs, epochs, equal


@pytest.mark.parametrize("name", BUILDS)
def test_hands_out_the_batches_of_the_data_set(name: str) -> None:
    kept = cached(Pictures(50, BUILDS[name]))
    assert_same_epochs(epochs(kept), epochs(Pictures(50, BUILDS[name])))
    assert kept.full and kept.num_cached == 50 and kept.note is None


@pytest.mark.parametrize("name", BUILDS)
def test_hands_out_true_items_to_a_collate_function_of_the_script(name: str) -> None:
    kept = cached(Pictures(50, BUILDS[name]))
    assert_same_epochs(epochs(kept, collate_fn=list), epochs(Pictures(50, BUILDS[name]), collate_fn=list))
    assert kept.full


@pytest.mark.parametrize("name", BUILDS)
def test_hands_out_true_items_one_by_one(name: str) -> None:
    kept = cached(Pictures(50, BUILDS[name]))
    settings: dict[str, Any] = {"batch_size": None, "num_epochs": 2}
    assert_same_epochs(epochs(kept, **settings), epochs(Pictures(50, BUILDS[name]), **settings))
    assert kept.full
    assert equal(kept[7], BUILDS[name](7))


def test_a_sampler_that_draws_as_it_goes_is_asked_for_no_more_than_the_loop_takes() -> None:
    """With replacement torch draws 32 indices at a time, from a generator that the script may use as well."""

    def loop(dataset: Any) -> list[tuple[Any, Any]]:
        generator = torch.Generator().manual_seed(3)
        sampler = RandomSampler(dataset, replacement=True, num_samples=50, generator=generator)
        loader = DataLoader(dataset, 8, sampler=sampler)
        return [
            (batch, generator.get_state().tolist()) for _ in range(3) for batch, _ in zip(loader, "abc", strict=False)
        ]

    kept = cached(Pictures(50))
    assert_same_epochs(loop(kept), loop(Pictures(50)))
    assert kept.num_cached > 0


def test_computes_each_item_once_and_a_few_twice() -> None:
    COMPUTED[100:] = []
    kept = cached(Counting(50))
    epochs(kept, num_epochs=1)
    in_first = len(COMPUTED) - 100
    kept._hotlap_cache.rechecks.cost_s = float("inf")
    epochs(kept, num_epochs=1)
    assert 50 <= in_first <= 55
    assert len(COMPUTED) - 100 == in_first


def test_a_batch_is_one_gather_and_not_a_list_of_items(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = cached(Pictures())
    epochs(kept, num_epochs=2)

    def fails(*_: Any) -> Any:
        raise AssertionError("items were taken one by one")

    monkeypatch.setattr(type(kept._hotlap_cache.store), "take", fails)
    assert len(epochs(kept, num_epochs=1)) == 7
    with pytest.raises(AssertionError, match="one by one"):
        epochs(kept, collate_fn=list)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e5m2, torch.uint8, torch.complex64])
@pytest.mark.parametrize("num_rows", [41, 60, 240])
def test_batches_of_any_size_and_dtype_are_gathered_bit_for_bit(dtype: torch.dtype, num_rows: int) -> None:
    def build(number: int) -> Any:
        picture = (torch.arange(28.0 * 28).view(28, 14, 2) * (number + 1) % 7).to(dtype)
        return picture.permute(2, 0, 1), picture

    kept, plain = cached(Pictures(250, build)), Pictures(250, build)
    settings: dict[str, Any] = {"batch_size": num_rows, "num_epochs": 2}
    assert_same_epochs(epochs(kept, **settings), epochs(plain, **settings))


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_numbers_that_numpy_does_not_know_are_kept_as_well() -> None:
    def build(number: int) -> Any:
        return torch.full((3,), complex(number, 1)).to(torch.complex32)

    kept = cached(Pictures(50, build))
    for _ in range(2):
        halves = [batch for batch in DataLoader(kept, 8)]
        assert torch.equal(
            torch.cat(halves).to(torch.complex64), torch.stack([build(n).to(torch.complex64) for n in range(50)])
        )
    assert kept.full and kept.note is None


@pytest.mark.parametrize("collate_fn", [default_collate, list])
def test_a_batch_changed_in_place_does_not_reach_the_cache(collate_fn: Callable[[Any], Any]) -> None:
    kept = cached(Pictures())
    for _ in range(2):
        for batch in DataLoader(kept, batch_size=8, collate_fn=collate_fn):
            for images in [batch[0]] if collate_fn is default_collate else [item[0] for item in batch]:
                images.add_(1000.0)
    assert kept.full and kept.note is None
    assert_same_epochs(epochs(kept), epochs(Pictures()))


def test_the_same_item_twice_in_a_batch_is_two_objects() -> None:
    kept = cached(Pictures())
    epochs(kept, num_epochs=1)
    first, second = kept.__getitems__([3, 3])
    first[0].fill_(-1.0)
    assert equal(second, Pictures()[3])


def test_items_of_differing_shapes_are_kept_one_by_one() -> None:
    def build(number: int) -> Any:
        return torch.arange(number % 5), number

    kept = cached(Pictures(50, build))
    settings: dict[str, Any] = {"collate_fn": lambda items: sorted(items, key=lambda item: -len(item[0]))}
    assert_same_epochs(epochs(kept, **settings), epochs(Pictures(50, build), **settings))
    assert kept.full


def test_items_that_differ_late_are_kept_one_by_one() -> None:
    def build(number: int) -> Any:
        return (number, None) if number == 49 else (number, number)

    kept = cached(Pictures(50, build))
    assert_same_epochs(epochs(kept, collate_fn=list), epochs(Pictures(50, build), collate_fn=list))
    assert kept[49] == (49, None)
    assert kept.note is None


def test_pictures_are_handed_out_as_copies() -> None:
    image = pytest.importorskip("PIL.Image")

    def build(number: int) -> Any:
        return image.new("RGB", (4, 3), (number, 0, 0)), number

    kept = cached(Pictures(50, build))
    epochs(kept, num_epochs=1, collate_fn=list)
    assert kept.full
    kept[5][0].putpixel((0, 0), (99, 99, 99))
    assert kept[5][0].getpixel((0, 0)) == (5, 0, 0)


def test_items_of_an_unknown_kind_are_computed_each_time() -> None:
    class Box:
        pass

    kept = cached(Pictures(50, lambda i: (Box(), i)))
    assert len(epochs(kept, collate_fn=list)) == 21
    assert kept.num_cached == 0
    assert kept.note is not None and "cannot be compared" in kept.note


def test_tensors_that_require_a_gradient_are_not_kept() -> None:
    kept = cached(Pictures(50, lambda i: torch.full((2,), float(i), requires_grad=True)))
    assert all(batch.requires_grad for batch, _ in epochs(kept))
    assert kept.num_cached == 0


def test_items_that_are_the_data_sets_own_memory_stay_so() -> None:
    images = torch.arange(100.0).view(50, 2)
    kept = cached(TensorDataset(images))
    epochs(kept)
    assert kept.full
    kept[4][0].fill_(-5.0)
    assert images[4].tolist() == [-5.0, -5.0]
    kept.__getitems__([5])[0][0].fill_(-6.0)
    assert images[5].tolist() == [-6.0, -6.0]


def test_text_that_memory_cannot_hold_is_not_kept() -> None:
    kept = cached(Pictures(50, BUILDS["text"]), memory_bytes=1000)
    assert_same_epochs(epochs(kept), epochs(Pictures(50, BUILDS["text"])))
    assert kept.num_cached == 0
    assert kept.note is not None and kept.note.startswith("Pictures is not kept: its items take about")


def test_items_that_grow_beyond_the_memory_are_dropped() -> None:
    def build(number: int) -> Any:
        return torch.zeros(10 if number < 30 else 10_000), str(number)

    kept = cached(Pictures(50, build), memory_bytes=100_000)
    assert_same_epochs(
        epochs(kept, collate_fn=list, shuffle=False), epochs(Pictures(50, build), collate_fn=list, shuffle=False)
    )
    assert kept.num_cached == 0
    assert kept.note is not None and "its items take about" in kept.note


def test_is_the_data_set_to_all_who_look() -> None:
    raw = Pictures()
    kept = cached(raw)
    assert isinstance(kept, Pictures) and kept.num_items == 50
    assert cached(kept) is kept
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        kept.nothing_of_that_name  # noqa: B018 - the lookup is what is tested


def test_loaders_over_one_data_set_share_what_is_kept() -> None:
    raw = Counting()
    first, second = cached(raw), cached(raw)
    epochs(first, num_epochs=1)
    assert second.full and second is first
    assert cached(raw, memory_bytes=1 << 20) is not first and cached(Counting()) is not first


def test_setting_an_attribute_reaches_the_data_set_and_drops_the_cache() -> None:
    raw = Pictures()
    kept = cached(raw)
    epochs(kept)
    kept.scale = 5.0
    assert raw.scale == 5.0 and kept.num_cached == 0
    assert_same_epochs(epochs(kept), epochs(raw))
    kept.extra = 1
    del kept.extra
    assert not hasattr(raw, "extra")


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, lambda kept: pickle.loads(pickle.dumps(kept))])
def test_copies_fill_a_cache_of_their_own(duplicate: Callable[[Any], Any]) -> None:
    kept = cached(Pictures())
    epochs(kept)
    twin = duplicate(kept)
    assert twin.num_cached == 0 and kept.full
    assert_same_epochs(epochs(twin), epochs(Pictures()))
    assert twin.full


def test_works_in_worker_processes() -> None:
    with warnings.catch_warnings():
        # "This process is multi-threaded, use of fork() may lead to deadlocks": Python 3.12 about any DataLoader.
        warnings.simplefilter("ignore", DeprecationWarning)
        settings: dict[str, Any] = {"num_workers": 2, "persistent_workers": True}
        assert_same_epochs(epochs(cached(Pictures()), **settings), epochs(Pictures(), **settings))


def test_an_iterable_data_set_is_refused() -> None:
    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Any:
            return iter(range(3))

    with pytest.raises(UserError, match="map-style"):
        cached(Stream())
