"""When kept items are dropped or refused: items that draw, that change, that were changed."""

import importlib
import os
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    DataLoader,
    Subset,
    TensorDataset,
)

from hotlap.data import cached
from hotlap.data.item_cache.again import RECHECK_EVERY
from tests.unit.data.sets import Pictures, assert_same_epochs, epochs, seed, states

SYSTEM = random.SystemRandom()


def draw_from_random() -> float:
    return random.random()


def draw_from_numpy() -> float:
    return float(np.random.rand())


def draw_from_torch() -> float:
    return torch.rand(()).item()


@pytest.mark.parametrize("draw", [draw_from_random, draw_from_numpy, draw_from_torch])
@pytest.mark.parametrize("from_item", [0, 20, 49])
def test_an_item_that_draws_is_refused_and_nothing_changes(draw: Callable[[], float], from_item: int) -> None:
    def build(number: int) -> Any:
        return torch.tensor(number + (draw() if number >= from_item else 0.0)), number

    kept = cached(Pictures(50, build))
    assert_same_epochs(epochs(kept), epochs(Pictures(50, build)))
    assert kept.num_cached == 0 and not kept.full
    assert kept.note is not None and "draws random numbers" in kept.note


def test_a_repeated_item_that_draws_draws_each_time() -> None:
    def build(number: int) -> Any:
        return random.random() + number

    def batch(dataset: Any) -> Any:
        seed()
        return next(iter(DataLoader(dataset, batch_sampler=[[3, 3, 3]]))), states()

    assert_same_epochs([batch(cached(Pictures(50, build)))], [batch(Pictures(50, build))])


class OwnGenerator(Pictures):
    def __init__(self, generator: Any) -> None:
        super().__init__()
        self.generator = generator

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.generator, torch.Generator):
            return torch.rand((2,), generator=self.generator)
        return torch.tensor(self.generator.random())


@pytest.mark.parametrize(
    "make",
    [
        lambda: random.Random(3),
        lambda: np.random.default_rng(3),
        lambda: np.random.RandomState(3),
        lambda: torch.Generator().manual_seed(3),
    ],
)
def test_a_generator_of_the_data_sets_own_is_found_and_left_as_it_was(make: Callable[[], Any]) -> None:
    kept = cached(OwnGenerator(make()))
    assert_same_epochs(epochs(kept), epochs(OwnGenerator(make())))
    assert kept.note is not None and "draws random numbers" in kept.note


def test_recomputing_leaves_the_random_streams_alone() -> None:
    late = [False]

    def build(number: int) -> Any:
        if late[0]:
            random.random()
        return torch.tensor(float(number))

    kept = cached(Pictures(50, build))
    loader = DataLoader(kept, batch_size=2)
    for _ in range(3):
        list(loader)
    kept._hotlap_cache.rechecks.cost_s = 0.0
    # Unseen by the watch: the same list, with another value in it, is put back into the very same place.
    kept._hotlap_cache.inputs.watch.places.clear()  # type: ignore[union-attr]
    late[0] = True
    seed()
    before = states()
    store, index = kept._hotlap_cache.store, list(range(2))
    for _ in range(RECHECK_EVERY):
        kept._hotlap_cache.locate(index)
    assert store is not None and kept._hotlap_cache.given_up
    assert states() == before


def test_items_that_read_the_clock_are_found_at_once() -> None:
    kept = cached(Pictures(50, lambda _: time.perf_counter_ns()))
    with pytest.warns(RuntimeWarning, match="came out different") as caught:
        assert len(epochs(kept)) == 21
    assert len(caught) == 1 and caught[0].filename == epochs.__code__.co_filename
    assert kept.num_cached == 0
    assert kept.note is not None and kept.note in str(caught[0].message)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: os.urandom(1)[0] / 256,
        lambda: np.random.default_rng().random(),
        lambda: np.random.RandomState().rand(),
        lambda: random.Random().random(),
        lambda: random.SystemRandom().random(),
        SYSTEM.random,
        lambda: uuid.uuid4().bytes[0] / 256,
    ],
    ids=["os.urandom", "default_rng", "RandomState", "Random", "SystemRandom", "one SystemRandom", "uuid4"],
)
def test_items_that_draw_from_the_operating_system_are_not_kept_however_rarely_it_shows(
    draw: Callable[[], float],
) -> None:
    kept = cached(Pictures(50, lambda number: torch.tensor(float(number)) + (draw() < 1e-6)))
    epochs(kept)
    assert kept.num_cached == 0
    assert "draws random numbers (from the operating system)" in str(kept.note)


def test_generators_with_a_seed_draw_nothing_from_the_operating_system() -> None:
    def build(number: int) -> Any:
        drawn = np.random.default_rng(number).random() + random.Random(number).random()
        return torch.tensor(drawn + np.random.RandomState(number).rand())

    kept = cached(Pictures(50, build))
    epochs(kept)
    assert kept.num_cached == 50 and kept.note is None


def test_a_name_for_a_file_or_a_lock_is_no_draw() -> None:
    """As that of the lock which `tqdm` makes with its first bar, in the first item of a data set of `datasets`."""

    def build(number: int) -> Any:
        next(tempfile._RandomNameSequence())  # type: ignore[attr-defined]
        return torch.tensor(number)

    kept = cached(Pictures(50, build))
    epochs(kept)
    assert kept.num_cached == 50 and kept.note is None


class Counter(Pictures):
    calls = 0

    def __getitem__(self, index: Any) -> Any:
        self.calls += 1
        return super().__getitem__(index)


@pytest.mark.parametrize("batch_size", [1, 8])
def test_a_data_set_that_counts_its_calls_is_left_alone(batch_size: int) -> None:
    counter, kept = Counter(), cached(Counter())
    assert_same_epochs(epochs(kept, batch_size=batch_size), epochs(counter, batch_size=batch_size))
    assert kept.calls == counter.calls == 150
    assert kept.note is not None and "(calls)" in kept.note


def counting_in(where: str) -> Any:
    """Its items come to depend on how many were computed, which is counted there."""
    builds: dict[str, Callable[[], Any]] = {
        "a container": CountsInDict,
        "a transform": Warms,
        "a closure": counts_around,
        "a global": lambda: counts_in_global,
    }
    return Pictures(50, builds[where]())


class CountsInDict:
    def __init__(self) -> None:
        self.seen = {"items": 0}

    def __call__(self, number: int) -> Any:
        self.seen["items"] += 1
        return torch.tensor(number + self.seen["items"] // 70)


class Warms:
    """A transform that warms up."""

    def __init__(self) -> None:
        self.num_calls = 0

    def __call__(self, number: int) -> Any:
        self.num_calls += 1
        return torch.tensor(number + self.num_calls // 70)


def counts_around() -> Callable[[int], Any]:
    calls = 0

    def build(number: int) -> Any:
        nonlocal calls
        calls += 1
        return torch.tensor(number + calls // 70)

    return build


CALLS = 0


def counts_in_global(number: int) -> Any:
    global CALLS  # noqa: PLW0603 - as scripts do
    CALLS += 1
    return torch.tensor(number + CALLS // 70)


@pytest.mark.parametrize("where", ["a container", "a transform", "a closure", "a global"])
def test_items_that_come_to_depend_on_what_they_count_are_left_alone(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.CALLS", 0)
    plain = epochs(counting_in(where))
    monkeypatch.setattr(f"{__name__}.CALLS", 0)
    kept = cached(counting_in(where))
    assert_same_epochs(epochs(kept), plain)
    assert kept.num_cached == 0 and kept.note is not None and "computing an item changes" in kept.note


class Memoizes(Pictures):
    """Keeps what is read for each item by itself."""

    def __init__(self) -> None:
        super().__init__(30)
        self.read: dict[int, Any] = {}
        self.last: list[Any] = [None]

    def __getitem__(self, index: Any) -> Any:
        self.last[0] = self.read.setdefault(index, torch.tensor(float(index)))
        return self.read[index].clone()


def test_what_an_item_keeps_for_later_ones_is_no_change() -> None:
    kept = cached(Memoizes())
    assert_same_epochs(epochs(kept), epochs(Memoizes()))
    assert kept.full and kept.note is None


class OpensLate(Pictures):
    file: object = None

    def __getitem__(self, index: Any) -> Any:
        if self.file is None:
            self.file = object()
        return super().__getitem__(index)


def test_a_file_opened_with_the_first_item_is_no_change() -> None:
    kept = cached(OpensLate())
    epochs(kept, num_epochs=1)
    assert kept.full and kept.note is None


def test_a_curriculum_attribute_is_noticed_before_the_next_batch() -> None:
    def batches(dataset: Any, raw: Pictures) -> list[tuple[Any, Any]]:
        result = epochs(dataset, num_epochs=2)
        raw.scale = 3.0
        return result + epochs(dataset, num_epochs=2)

    raw, plain = Pictures(), Pictures()
    kept = cached(raw)
    assert_same_epochs(batches(kept, raw), batches(plain, plain))
    assert kept.full
    assert kept.note == "an attribute of Pictures (scale) of the data set was changed: 50 kept items were dropped, " + (
        "and are computed anew"
    )


def test_an_attribute_that_changes_each_epoch_ends_the_caching() -> None:
    raw = Pictures()
    kept = cached(raw)
    for epoch in range(6):
        raw.scale = float(epoch)
        epochs(kept, num_epochs=1)
    assert kept.num_cached == 0
    assert kept.note is not None and "again and again" in kept.note


class Scale:
    def __init__(self) -> None:
        self.factors = {"x": 1.0}

    def __call__(self, value: Any) -> Any:
        return value * self.factors["x"]


class Transformed(Pictures):
    def __init__(self, transforms: list[Any]) -> None:
        super().__init__()
        self.transforms = transforms

    def __getitem__(self, index: Any) -> Any:
        value = torch.tensor(float(index))
        for transform in self.transforms:
            value = transform(value)
        return value


def test_a_transform_that_is_changed_is_noticed() -> None:
    scale = Scale()
    kept = cached(Subset(Transformed([scale]), range(50)))
    epochs(kept, num_epochs=1)
    scale.factors["x"] = 2.0
    assert_same_epochs(epochs(kept), epochs(Transformed([scale])))


LEVEL = 1.0
scale = 1.0


class ReadsGlobal(Pictures):
    def __getitem__(self, index: Any) -> Any:
        return torch.tensor(float(index)) * self.scale * LEVEL


def test_a_global_setting_that_is_changed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = cached(ReadsGlobal())
    epochs(kept, num_epochs=1)
    monkeypatch.setitem(globals(), "LEVEL", 2.0)
    assert_same_epochs(epochs(kept), epochs(ReadsGlobal()))
    assert kept.note is not None and "a global name used by ReadsGlobal.__getitem__" in kept.note


SCALES = """import torch
LEVEL = 1.0
def scaled(number):
    return torch.tensor(float(number)) * LEVEL
"""


def test_a_global_setting_in_a_file_named_like_a_module_of_pythons_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tabnanny.py").write_text(SCALES)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "tabnanny", None)
    del sys.modules["tabnanny"]
    beside: Any = importlib.import_module("tabnanny")
    kept = cached(Pictures(50, beside.scaled))
    epochs(kept, num_epochs=1)
    assert kept.full
    beside.LEVEL = 2.0
    assert_same_epochs(epochs(kept), epochs(Pictures(50, beside.scaled)))


def test_a_global_variable_named_like_an_attribute_is_another_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = cached(ReadsGlobal())
    epochs(kept, num_epochs=1)
    monkeypatch.setitem(globals(), "scale", 2.0)
    epochs(kept, num_epochs=1)
    assert kept.full and kept.note is None


def test_a_hidden_change_is_found_by_recomputing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIDDEN", "1")

    def build(number: int) -> Any:
        return torch.tensor(number * float(os.environ["HIDDEN"]))

    kept = cached(Pictures(50, build))
    epochs(kept, num_epochs=2, batch_size=2)
    assert kept.full
    monkeypatch.setenv("HIDDEN", "2")
    kept._hotlap_cache.rechecks.cost_s = 0.0
    with pytest.warns(RuntimeWarning, match="50 kept items were dropped"):
        epochs(kept, num_epochs=1, batch_size=2)
    assert_same_epochs(epochs(kept), epochs(Pictures(50, build)))
    assert kept.num_cached == 0


def test_a_tensor_changed_in_place_is_noticed() -> None:
    images = torch.zeros(50, 2)
    kept = cached(TensorDataset(images))
    epochs(kept, num_epochs=2)
    images += 1
    assert_same_epochs(epochs(kept), epochs(TensorDataset(images)))


def test_a_data_set_that_grows_is_noticed() -> None:
    values = [torch.tensor(float(number)) for number in range(50)]
    kept = cached(values)
    epochs(kept, num_epochs=2)
    values.append(torch.tensor(50.0))
    assert_same_epochs(epochs(kept), epochs(values))
    assert len(kept) == 51


def test_an_item_that_can_be_had_only_once_is_handed_out() -> None:
    stock = {number: float(number) for number in range(50)}
    kept = cached(Pictures(50, stock.pop))
    assert sorted(torch.cat([batch for batch, _ in epochs(kept, num_epochs=1)]).tolist()) == list(map(float, range(50)))
    assert kept.note is not None and "could not be computed twice (KeyError" in kept.note


class Rows(Pictures):
    """Asked for by tensors: of one number, or of several."""

    def __init__(self) -> None:
        super().__init__(50, float)
        self.labels = [*range(len(self))]

    def __getitem__(self, index: Any) -> Any:
        return torch.as_tensor(self.labels)[index]


def test_an_index_that_asks_for_several_items_is_left_to_the_data_set() -> None:
    rows = cached(Rows())
    for _ in range(2):
        for number in range(len(rows)):
            assert rows[torch.tensor(number)] == number
    assert rows[torch.tensor([1, 2])].tolist() == [1, 2]
