"""cached_prefix(): heads once, tails each time, and the very items of the data set as written."""

import os
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import ConcatDataset, Subset

from hotlap.data import cached_prefix
from hotlap.data.checks.random_state import Streams
from hotlap.data.checks.watch import Watch
from hotlap.data.item import pictures
from hotlap.data.item_cache import again
from tests.unit.data.pipelines import Compose, Flip, FlipBoth, Jointly, Noise, Slow, SlowBoth
from tests.unit.data.sets import Pictures, assert_same_epochs, epochs, seed, states

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


class Augmented(Pictures):
    """`read(number)` gives what the transforms are handed."""

    def __init__(self, transform: Any, read: Callable[[int], Any] | None = None) -> None:
        super().__init__(40)
        self.transform = transform
        self.read = read or (lambda number: torch.arange(16.0).view(4, 4) + number)

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < self.num_items:
            raise IndexError(index)
        for _ in range(20):
            value = self.read(index)
        sys.modules[__name__].READ[0] += 1
        return self.transform(value), index % 7


READ = [0] * 100
"""Where nobody looks."""


class TwoViews(Augmented):
    def __getitem__(self, index: Any) -> Any:
        value = self.read(index)
        return {"one": self.transform(value), "two": self.transform(value), "label": index}


class Chained(Augmented):
    def __init__(self) -> None:
        super().__init__(Compose([Slow(), Flip()]))
        self.second = Compose([Slow(), Noise()])

    def __getitem__(self, index: Any) -> Any:
        value = self.read(index)
        return self.second(self.transform(value)), index


class Targets(Augmented):
    def __getitem__(self, index: Any) -> Any:
        image, mask = self.transform(self.read(index), torch.tensor(float(index)))
        return image, mask


def picture(number: int) -> Any:
    return Image.fromarray(np.full((8, 8, 3), number, np.uint8)).resize((5, 5))


class FromPicture:
    def __call__(self, value: Any) -> Any:
        assert isinstance(value, Image.Image) and value.mode == "RGB"
        value.putpixel((0, 0), (255, random.randrange(255), 0))
        return torch.from_numpy(np.array(value, copy=True))


SETS: dict[str, Callable[[], Any]] = {
    "tensor": lambda: Augmented(Compose([Slow(), Flip(), Slow()])),
    "in place": lambda: Augmented(Compose([Slow(), Noise()])),
    "v2": lambda: Augmented(Jointly([Slow(), Flip(), Noise()])),
    "sequential": lambda: Augmented(nn.Sequential(nn.Tanh(), nn.Dropout(0.3), nn.ReLU())),
    "nested": lambda: Augmented(Compose([Compose([Slow()]), Slow(), Compose([Flip(), Slow()])])),
    "no head": lambda: Augmented(Compose([Noise(), Slow()])),
    "two views": lambda: TwoViews(Compose([Slow(), Noise(), Flip()])),
    "chained": Chained,
    "target": lambda: Targets(Jointly([SlowBoth(), FlipBoth()])),
    "picture": lambda: Augmented(Compose([FromPicture()]), picture),
    "array": lambda: Augmented(Compose([np.flip, np.ascontiguousarray, torch.from_numpy, Noise()]), rows),
    "dtypes": lambda: Augmented(Compose([lambda value: value, lambda value: Flip()(value["x"])]), mapping),
    "subset": lambda: Subset(Augmented(Compose([Slow(), Flip()])), range(5, 30)),
    "chain": lambda: ConcatDataset([Augmented(Compose([Slow(), Flip()])), Augmented(Compose([Slow(), Noise()]))]),
}


def rows(number: int) -> Any:
    return np.arange(12.0).reshape(3, 4) + number


def mapping(number: int) -> Any:
    return {"x": torch.full((3, 2), number, dtype=torch.bfloat16).t(), "n": number, "text": f"{number}", "none": None}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.processes)])
def test_items_draws_and_states_are_those_of_the_script(name: str, num_workers: int) -> None:
    ours = cached_prefix(SETS[name]())
    settings: dict[str, Any] = {"num_workers": num_workers, "persistent_workers": num_workers > 0}
    assert_same_epochs(epochs(ours, **settings), epochs(SETS[name](), **settings))
    assert ours.note is None
    assert ours.num_cached == len(ours)


def test_heads_are_computed_once() -> None:
    ours = cached_prefix(Augmented(Compose([Slow(), Flip()])))
    epochs(ours, num_epochs=1)
    READ[0] = 0
    epochs(ours, num_epochs=3)
    assert READ[0] <= 3 * 40 // again.RECHECK_EVERY + 1


@pytest.mark.processes
def test_heads_are_computed_by_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotlap.data.item_cache.engine.FILL_LEAST_S", 0.0)
    monkeypatch.setattr("hotlap.data.item_cache.engine.usable_cores", lambda: 2)
    ours = cached_prefix(Augmented(Compose([Slow(), Noise()])))
    READ[0] = 0
    seen = epochs(ours, num_epochs=1)
    assert READ[0] < 40 and ours.num_cached == 40, "beside those of the first look few are computed here"
    assert_same_epochs(seen, epochs(Augmented(Compose([Slow(), Noise()])), num_epochs=1))


def test_workers_of_all_epochs_share_the_heads() -> None:
    ours = cached_prefix(Augmented(Compose([Where(), Flip()])))
    first = epochs(ours, num_epochs=1, num_workers=2)
    second = epochs(ours, num_epochs=1, num_workers=2)
    assert {int(v) for (x, _), _ in first for v in x.flatten()} == {int(v) for (x, _), _ in second for v in x.flatten()}


class Where:
    """Says in which process it ran."""

    def __call__(self, value: Any) -> Any:
        return torch.full((4,), float(os.getpid()))


def test_it_composes_with_workers_that_stay() -> None:
    make = SETS["in place"]
    ours = cached_prefix(make())
    given: dict[str, Any] = {"num_workers": 2, "persistent_workers": True}
    assert_same_epochs(epochs(ours, **given), epochs(make(), **given))
    assert ours.note is None


class Outside(Augmented):
    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(random.randrange(40))


class Unseen(Augmented):
    """The code that draws its items cannot be cut."""

    __getitem__ = torch.no_grad()(Augmented.__getitem__)


class Worked(Augmented):
    @torch.no_grad()
    def __getitem__(self, index: Any) -> Any:
        return self.transform(self.read(index)) * 2


class Asks(Augmented):
    """Takes another way where it is not given a tensor."""

    @torch.no_grad()
    def __getitem__(self, index: Any) -> Any:
        value = self.transform(self.read(index))
        return value if not isinstance(value, torch.Tensor) else value * 2


class Counts(Augmented):
    calls = 0

    def __getitem__(self, index: Any) -> Any:
        self.calls += 1
        return self.transform(self.read(index)) + self.calls


class Strange:
    def __call__(self, value: Any) -> Any:
        return Holder(value)


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "draws outside": (lambda: Outside(Compose([Slow(), Flip()])), "outside of its transforms"),
    "works on it": (lambda: Worked(Compose([Slow(), Flip()])), "works on what its transforms return"),
    "asks": (lambda: Asks(Compose([Slow(), Flip()])), "comes out different"),
    "nothing to cut": (Pictures, "draws no random numbers"),
    "no plain data": (lambda: Unseen(Compose([Strange(), lambda h: Flip()(h.value)])), "it holds a"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.processes)])
def test_what_cannot_be_cut_is_left_as_it_is_and_it_is_said(name: str, num_workers: int) -> None:
    make, reason = REFUSED[name]
    ours = cached_prefix(make())
    settings: dict[str, Any] = {"num_workers": num_workers, "persistent_workers": num_workers > 0}
    assert_same_epochs(epochs(ours, **settings), epochs(make(), **settings))
    assert ours.note is not None and reason in ours.note
    assert ours.num_cached == 0


def test_a_data_set_that_counts_is_left_as_it_is() -> None:
    ours, plain = cached_prefix(Counts(Compose([Slow(), Flip()]))), Counts(Compose([Slow(), Flip()]))
    plain.calls = ours.calls
    epochs(ours, num_epochs=1)
    assert ours.note is not None


def test_an_item_that_draws_late_is_not_kept() -> None:
    class Sometimes:
        def __call__(self, value: Any) -> Any:
            return value + float(torch.rand(())) if float(value[0, 0]) == 14.0 else value

    def make() -> Any:
        return Augmented(Compose([Slow(), Slow(), lambda value: value - 30, Sometimes(), Flip()]))

    ours = cached_prefix(make())
    assert_same_epochs(epochs(ours), epochs(make()))
    assert ours.num_cached == 39


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.processes)])
def test_a_change_of_the_transforms_drops_the_heads(num_workers: int) -> None:
    def run(dataset: Any) -> list[Any]:
        seen = epochs(dataset, num_epochs=1, num_workers=num_workers)
        dataset.transform.transforms[0] = lambda value: value * 3
        return seen + epochs(dataset, num_epochs=2, num_workers=num_workers)

    def make() -> Any:
        return Augmented(Compose([Slow(), Flip()]))

    ours = cached_prefix(make())
    assert_same_epochs(run(ours), run(make()))
    assert ours.note is not None and "changed" in ours.note


def test_heads_that_change_unseen_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "RECHECK_EVERY", 1)
    monkeypatch.setattr(again, "SHARE", 0)
    monkeypatch.setenv("HIDDEN", "1")
    ours = cached_prefix(Augmented(Compose([Slow(), lambda value: value * float(os.environ["HIDDEN"]), Flip()])))
    epochs(ours, num_epochs=1)
    monkeypatch.setenv("HIDDEN", "5")
    with pytest.warns(RuntimeWarning, match="came out different"):
        seen = epochs(ours)
    assert_same_epochs(
        seen, epochs(Augmented(Compose([Slow(), lambda value: value * float(os.environ["HIDDEN"]), Flip()])))
    )


def test_of_more_than_memory_holds_as_many_as_fit_are_kept() -> None:
    ours = cached_prefix(SETS["tensor"](), memory_bytes=8000)
    assert_same_epochs(epochs(ours), epochs(SETS["tensor"]()))
    assert 0 < ours.num_cached < 40
    assert ours.note is not None and "as many as that are kept" in ours.note


class Fails(Augmented):
    def __getitem__(self, index: Any) -> Any:
        if index == 21:
            raise ValueError("item 21 is broken")
        return super().__getitem__(index)


class Batched:
    """As a loader fetches items."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __getitems__(self, indices: Any) -> Any:
        return [self._dataset[index] for index in indices]


def test_an_error_of_the_data_set_is_its_own() -> None:
    ours = cached_prefix(Fails(Compose([Slow(), Flip()])))
    with pytest.raises(ValueError, match="item 21 is broken"):
        epochs(ours, shuffle=False)


def test_draws_in_front_of_an_error_are_those_of_the_script() -> None:
    def run(dataset: Any) -> Any:
        seed(0)
        for start in (0, 8, 16):  # the third batch holds the one that fails, as its sixth
            with suppress(ValueError):
                dataset.__getitems__([*range(start, start + 8)])
        return states()

    assert run(cached_prefix(Fails(Compose([Slow(), Noise()])))) == run(Batched(Fails(Compose([Slow(), Noise()]))))


def test_generators_are_looked_at_for_a_batch_not_for_each_of_its_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = cached_prefix(Augmented(Compose([Slow(), Flip()])))
    ours.__getitems__([0, 1])
    looked, read = [0], Streams.states
    monkeypatch.setattr(Streams, "states", lambda streams: looked.append(1) or read(streams))  # type: ignore[func-returns-value]
    ours.__getitems__([*range(2, 34)])
    assert ours.num_cached >= 32 and len(looked) < 8


class ResizedCrop:
    """Draws, and returns a picture: a part of it, of another size, turned over or not."""

    def __call__(self, value: Any) -> Any:
        left, top, mirrored = (int(torch.randint(0, 2, (1,))) for _ in range(3))
        part = value.crop((left, top, left + 3, top + 4)).resize((6, 4), Image.Resampling.BILINEAR)
        return part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if mirrored else part


def resized() -> Augmented:
    return Augmented(Compose([ResizedCrop(), np.array]), picture)


def test_kept_pictures_are_cropped_resized_and_turned_over_without_pil(monkeypatch: pytest.MonkeyPatch) -> None:
    if pictures._columns_first() is None:
        pytest.skip("the native core does not do as this Pillow")
    ours = cached_prefix(resized())
    seen = epochs(ours, num_epochs=2)
    assert_same_epochs(seen, epochs(resized(), num_epochs=2))
    monkeypatch.setattr(again, "RECHECK_EVERY", 10**6)
    for name in ("crop", "resize", "transpose", "tobytes"):
        monkeypatch.setattr(Image.Image, name, None)
    assert_same_epochs(epochs(ours, num_epochs=2), seen)


def test_without_the_native_core_kept_pictures_are_pils(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "_columns_first", lambda: None)
    ours = cached_prefix(resized())
    assert_same_epochs(epochs(ours, num_epochs=2), epochs(resized(), num_epochs=2))
    assert ours.note is None and ours.num_cached == len(ours)


def test_a_batch_asks_once_whether_the_data_set_was_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    data = cached_prefix(Augmented(Compose([Slow(), Flip()])))
    data.__getitems__([*range(40)])
    asked, changed = [], Watch.changed

    def counted(watch: Watch, *same: Any) -> str | None:
        asked.append(watch)
        return changed(watch, *same)

    monkeypatch.setattr(Watch, "changed", counted)
    assert len(data.__getitems__([*range(8)])) == 8
    assert len(asked) == 1
