"""Pictures that `ToTensor` made of bytes are kept as these bytes, whose numbers come out bit by bit; others are not."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from hotlap.data import cached, resident
from hotlap.data.item_cache import columns
from hotlap.data.item_cache.store import RecordStore
from hotlap.native import Core, core
from tests.unit.data.sets import BUILDS, Pictures, assert_same_epochs, epochs

NUM_ITEMS = 60
PICTURE_BYTES = 300
OTHERS = {"a half": 0.5, "none": math.nan, "minus nothing": -0.0, "more": 2.0, "endless": math.inf, "next": 0.2 + 2e-8}


def pictures(other: float | None = None, place: int = 50) -> Pictures:
    def build(number: int) -> Any:
        picture = BUILDS["picture"](number)
        if other is not None and number == place:
            picture[1, 2, 3] = other
        return picture, number

    return Pictures(NUM_ITEMS, build)


def test_pictures_take_a_quarter_of_their_numbers() -> None:
    kept = cached(pictures(), memory_bytes=NUM_ITEMS * (PICTURE_BYTES + 8))
    assert_same_epochs(epochs(kept), epochs(pictures()))
    assert kept.full and kept.note is None


@pytest.mark.parametrize("holds", [lambda x: x, lambda x: x.detach(), lambda x: x[1:], lambda x: x.numpy()])
def test_a_batch_that_a_script_still_has_stays_as_it_is(holds: Callable[[torch.Tensor], Any]) -> None:
    kept = cached(pictures())
    loader = DataLoader(kept, batch_size=10)
    had = [[holds(batch[0]) for batch in loader] for _ in range(3)]
    expected = [holds(batch[0]) for batch in DataLoader(pictures(), batch_size=10)]
    for epoch in had:
        for now, then in zip(epoch, expected, strict=True):
            assert torch.equal(torch.as_tensor(now), torch.as_tensor(then))


@pytest.mark.skipif(core().module is None, reason=f"no native core: {core().why_not}")
def test_batches_lie_where_those_lay_that_nobody_has_any_more() -> None:
    kept = cached(pictures())
    assert len([*DataLoader(kept, batch_size=10)]) > 2
    places = {batch[0].data_ptr() for _ in range(3) for batch in DataLoader(kept, batch_size=10, drop_last=True)}
    assert len(places) <= 2  # a loop has one while the next is made


def test_pictures_whose_rows_are_wanted_on_a_device_stay_numbers() -> None:
    kept = resident(pictures(), memory_bytes=NUM_ITEMS * (PICTURE_BYTES + 8))
    epochs(kept, num_epochs=1)
    assert kept.note is not None and "its items take about" in kept.note


@pytest.mark.parametrize("place", [0, 50])
@pytest.mark.parametrize(
    ("other", "filled_by"),
    [*((other, "this process") for other in OTHERS), ("a half", "others"), ("a half", "workers")],
)
def test_a_picture_of_other_numbers_is_kept_as_it_is(
    other: str, filled_by: str, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hotlap.data.item_cache.engine.FILL_LEAST_S", 0.0 if filled_by == "others" else math.inf)
    monkeypatch.setattr("hotlap.data.item_cache.engine.usable_cores", lambda: 2)
    ours, plain = cached(pictures(OTHERS[other], place)), pictures(OTHERS[other], place)
    settings: dict[str, Any] = {"shuffle": False, "num_workers": int(filled_by == "workers")}
    assert_same_epochs(epochs(ours, **settings), epochs(plain, **settings))
    assert ours.full and ours.note is None


@pytest.mark.parametrize("other", [None, 0.5])
def test_pictures_are_found_again_on_disk(other: float | None, tmp_path: Path) -> None:
    epochs(cached(pictures(other, 0), disk=tmp_path), shuffle=False)
    again = cached(pictures(other, 0), disk=tmp_path)
    assert_same_epochs(epochs(again, shuffle=False), epochs(pictures(other, 0), shuffle=False))
    assert again.full and again.warm and again.note is None
    (file,) = tmp_path.glob("*.cache")
    assert (file.stat().st_size > NUM_ITEMS * 4 * PICTURE_BYTES) == (other is not None)


def test_marked_pictures_take_a_quarter_of_their_numbers_too() -> None:
    kept = cached(Pictures(NUM_ITEMS, BUILDS["marked"]), memory_bytes=NUM_ITEMS * (PICTURE_BYTES + 8))
    assert_same_epochs(epochs(kept), epochs(Pictures(NUM_ITEMS, BUILDS["marked"])))
    assert kept.full and kept.note is None


@pytest.mark.parametrize("number", [0, 1, 50])
@pytest.mark.parametrize("other", ["no mark", "more marks"])
def test_a_picture_with_other_marks_is_kept_as_it_is(other: str, number: int) -> None:
    def build(index: int) -> Any:
        picture, label = BUILDS["marked"](index)
        if index == number and other == "more marks":
            picture.canvas_size = (10, 10)
        return picture.as_subclass(torch.Tensor) if index == number and other == "no mark" else picture, label

    kept = cached(Pictures(NUM_ITEMS, build))
    assert_same_epochs(epochs(kept, collate_fn=list), epochs(Pictures(NUM_ITEMS, build), collate_fn=list))
    assert kept.full and kept.note is None
    assert getattr(kept[number][0], "canvas_size", None) == ((10, 10) if other == "more marks" else None)


def test_items_with_texts_are_kept_one_by_one() -> None:
    def build(number: int) -> Any:
        text = "é" * (number if number % 4 else 500 + number)
        return {"text": text, "raw": text.encode(), "ids": torch.full((8,), number), "pair": (f"{number}", number / 3)}

    ours = cached(Pictures(NUM_ITEMS, build))
    assert_same_epochs(epochs(ours), epochs(Pictures(NUM_ITEMS, build)))
    assert ours.full and ours.note is None
    assert isinstance(ours._hotlap_cache.store, RecordStore)


def test_every_byte_becomes_the_number_that_torch_makes_of_it() -> None:
    def build(number: int) -> Any:
        return torch.arange(256, dtype=torch.uint8).to(torch.float32).div(255)

    kept = cached(Pictures(20, build), memory_bytes=20 * 256)
    assert_same_epochs(epochs(kept), epochs(Pictures(20, build)))
    assert kept.full and kept.note is None


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("shape", [(1, 16, 16), (3, 21, 13), (1, 64, 40)])
def test_each_byte_over_255_is_the_same_number_natively_and_by_numpy(
    shape: tuple[int, ...], native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native:
        monkeypatch.setattr(columns, "extension", lambda: Core(None, "", "off"))
    kept_bytes = torch.randint(0, 256, (9, *shape), dtype=torch.uint8)
    kept_bytes[0].view(-1)[:256] = torch.arange(256)
    numbers = kept_bytes.to(torch.float32).div(255)
    plain = Pictures(9, lambda number: numbers[number].clone())
    for batch_size in (1, 5, 9):
        kept = cached(plain)
        assert_same_epochs(epochs(kept, batch_size=batch_size), epochs(plain, batch_size=batch_size))
        assert kept.full, kept.note
