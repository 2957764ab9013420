"""late(): pictures stay bytes until they are a batch, and become the same numbers in the same places."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Subset

from hotlap.data import cached_prefix, late
from hotlap.data.item import pictures
from hotlap.data.item_cache import again
from hotlap.data.transforms import late as of_late
from hotlap.data.transforms.late import LateBatch, LateDataset
from hotlap.data.transforms.normalize import DeferredSteps, deferred_steps
from hotlap.errors import UserError
from tests.unit.data.pictures import (
    MEAN,
    STD,
    Bytes,
    ConvertImageDtype,
    Crop,
    Named,
    Normalize,
    ToDtype,
    ToImage,
    ToTensor,
    chw,
    usual,
)
from tests.unit.data.pipelines import Compose, Flip, Noise
from tests.unit.data.sets import Pictures, assert_same_epochs, epochs, equal

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.usefixtures("any_head"),
]

SERVED: dict[str, Callable[[], Any]] = {
    "usual": usual,
    "alone": lambda: Bytes(ToTensor()),
    "grey": lambda: Bytes(Compose([ToTensor(), Normalize((0.1307,), (0.3081,))]), num_channels=1),
    "one constant": lambda: Bytes(Compose([ToTensor(), Normalize(0.5, torch.tensor([0.25]))])),
    "twice": lambda: Bytes(Compose([ToTensor(), Normalize(MEAN, STD), Normalize(STD, MEAN)])),
    "pictures": lambda: Bytes(Compose([ToTensor(), Normalize(MEAN, STD)]), make=Image.fromarray),
    "grey pictures": lambda: Bytes(ToTensor(), num_channels=1, make=Image.fromarray),
    "with alpha": lambda: Bytes(ToTensor(), num_channels=4, make=Image.fromarray),
    "tensors": lambda: Bytes(Compose([Flip(), ConvertImageDtype(torch.float32), Normalize(MEAN, STD)]), make=chw),
    "part of a tensor": lambda: Bytes(Compose([lambda x: x[:, 1:, 2:], ToDtype(torch.float32, scale=True)]), make=chw),
    "turned": lambda: Bytes(
        Compose([lambda x: x.permute(2, 0, 1)[:, 1:], ToDtype(torch.float32, scale=True)]), make=torch.from_numpy
    ),
    "dense but turned": lambda: Bytes(
        Compose([lambda x: x.permute(2, 0, 1), ConvertImageDtype(torch.float32)]), make=torch.from_numpy
    ),
    "second version": lambda: Bytes(
        Compose([ToImage(), ToDtype(torch.float32, scale=True), Normalize(MEAN, STD)]), make=Image.fromarray
    ),
    "not scaled": lambda: Bytes(Compose([ToImage(), ToDtype(torch.float32)])),
    "a Sequential": lambda: Bytes(torch.nn.Sequential(ToImage(), ToDtype(torch.float32, scale=True))),
    "two parts": lambda: ConcatDataset([usual(), usual()]),
    "some of them": lambda: Subset(usual(), range(3, 19)),
    "dict": lambda: usual(build=lambda x, y: {"name": f"n{y}", "inner": [y, {"x": x}]}),
    "named": lambda: usual(build=Named),
    "the picture alone": lambda: usual(build=lambda x, _: x),
    "both places": lambda: usual(build=lambda x, y: (x, y, x)),
}


@pytest.mark.parametrize("name", SERVED)
def test_gives_the_same_batches_and_streams(name: str) -> None:
    ours = late(SERVED[name]())
    settings: list[dict[str, Any]] = [{}, {"shuffle": False, "batch_size": 1}, {"drop_last": True, "batch_size": 5}]
    for given in settings:
        assert_same_epochs(epochs(ours, num_epochs=2, **given), epochs(SERVED[name](), num_epochs=2, **given))
    assert type(ours) is LateDataset and ours.note is None


def test_no_item_goes_through_the_last_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = late(usual())
    seen = epochs(ours, num_epochs=1)
    monkeypatch.setattr(ToTensor, "__call__", None)
    monkeypatch.setattr(Normalize, "forward", None)
    assert_same_epochs(epochs(ours, num_epochs=1), seen)


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_send_bytes(persistent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    true_finish = of_late.finish

    def noted(data: Any) -> Any:
        sent.append(data.value[0].dtype if type(data) is LateBatch else None)
        return true_finish(data)

    settings: dict[str, Any] = {"num_workers": 2, "num_epochs": 2, "persistent_workers": persistent}
    expected = epochs(usual(), **settings)
    monkeypatch.setattr("hotlap.data.loader.patch.finish", noted)
    assert_same_epochs(epochs(late(usual()), **settings), expected)
    assert set(sent) == {torch.uint8}


def slow(picture: Any) -> Any:
    sys.modules[__name__].DECODED.append(len(picture))
    return picture


DECODED, CONVERTED = [0] * 100, [0] * 100
"""Where nobody looks."""


def slow_picture(picture: Any) -> Any:
    return Image.fromarray(slow(picture))


KEPT: dict[str, Callable[[], Any]] = {
    "usual": lambda: usual(make=slow),
    "pictures": lambda: Bytes(Compose([Turn(), ToTensor(), Normalize(MEAN, STD)]), make=slow_picture),
    "resized": lambda: Bytes(Compose([ResizedCrop(), ToTensor(), Normalize(MEAN, STD)]), make=slow_picture),
    "several steps": lambda: Bytes(
        Compose([slow, np.flipud, np.ascontiguousarray, Crop(), np.ascontiguousarray, ToTensor()])
    ),
    "nested": lambda: usual(make=slow, build=lambda x, y: {"x": x, "y": [y, f"n{y}"]}),
    "some of them": lambda: Subset(usual(make=slow), range(3, 19)),
}


class ResizedCrop:
    """Draws, and returns a picture: a part of it, of another size, turned over or not."""

    def __call__(self, picture: Any) -> Any:
        left, top, mirrored = (int(torch.randint(0, 2, (1,))) for _ in range(3))
        part = picture.crop((left, top, left + 5, top + 7)).resize((6, 4), Image.Resampling.BILINEAR)
        return part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if mirrored else part


class Turn:
    """Draws, and returns a picture."""

    def __call__(self, picture: Any) -> Any:
        return picture.rotate(90 * int(torch.randint(0, 4, (1,))), expand=False)


@pytest.mark.parametrize(
    "workers",
    [
        {},
        pytest.param({"num_workers": 2}, marks=pytest.mark.processes),
        pytest.param({"num_workers": 2, "persistent_workers": True}, marks=pytest.mark.processes),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", KEPT)
def test_around_kept_heads_both_are_done(name: str, workers: dict[str, Any]) -> None:
    ours = late(cached_prefix(KEPT[name]()))
    given: dict[str, Any] = {"num_epochs": 3, "batch_size": 5, **workers}
    assert_same_epochs(epochs(ours, **given), epochs(KEPT[name](), **given))
    assert ours.note is None and ours._hotlap_dataset.note is None
    assert ours._hotlap_dataset.num_cached == len(ours)


@pytest.mark.parametrize("wrapped", [cached_prefix, lambda data: late(cached_prefix(data))])
def test_kept_pictures_are_cropped_resized_and_turned_over_without_pil(
    wrapped: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if pictures._columns_first() is None:
        pytest.skip("the native core does not do as this Pillow")
    ours = wrapped(KEPT["resized"]())
    seen = epochs(ours, num_epochs=2)
    monkeypatch.setattr(again, "RECHECK_EVERY", 10**6)
    for name in ("crop", "resize", "transpose", "tobytes"):
        monkeypatch.setattr(Image.Image, name, None)
    assert_same_epochs(epochs(ours, num_epochs=2), seen)


def test_without_the_native_core_kept_pictures_are_pils(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "_columns_first", lambda: None)
    ours = late(cached_prefix(KEPT["resized"]()))
    assert_same_epochs(epochs(ours, num_epochs=2), epochs(KEPT["resized"](), num_epochs=2))
    assert ours.note is None and ours._hotlap_dataset.num_cached == len(ours)


def test_around_kept_heads_nothing_is_decoded_and_nothing_made_item_by_item(monkeypatch: pytest.MonkeyPatch) -> None:
    convert = ToTensor.__call__

    def counted(step: Any, picture: Any) -> torch.Tensor:
        sys.modules[__name__].CONVERTED.append(len(picture))
        return convert(step, picture)

    monkeypatch.setattr(ToTensor, "__call__", counted)
    ours = late(cached_prefix(usual(make=slow)))
    seen = epochs(ours, num_epochs=2)
    num_before = len(DECODED), len(CONVERTED)
    monkeypatch.setattr(again, "RECHECK_EVERY", 10**6)
    assert_same_epochs(epochs(ours, num_epochs=2), seen)
    assert (len(DECODED), len(CONVERTED)) == num_before


def test_a_second_pipeline_that_ends_otherwise_is_told() -> None:
    class Labelled(Bytes):
        def __init__(self) -> None:
            super().__init__(Compose([Crop(), ToTensor()]), make=slow)
            self.target_transform = Compose([lambda label: label + 1])

        def __getitem__(self, index: Any) -> Any:
            picture, label = super().__getitem__(index)
            return picture, self.target_transform(label)

    ours = late(cached_prefix(Labelled()))
    assert_same_epochs(epochs(ours), epochs(Labelled()))
    assert ours.note is not None and "not all of its pipelines end so" in ours.note
    alone = late(Labelled())
    assert_same_epochs(epochs(alone), epochs(Labelled()))
    assert alone.note is None


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.processes)])
def test_heads_dropped_while_it_goes_on_change_nothing(num_workers: int) -> None:
    def loop(wrap: Callable[[Any], Any]) -> Any:
        data = wrap(usual(make=slow))
        yield from epochs(data, num_epochs=1, num_workers=num_workers)
        data.transform.transforms.insert(0, np.ascontiguousarray)
        yield from epochs(data, num_epochs=1, num_workers=num_workers)
        data.transform.transforms.pop()
        yield from epochs(data, num_epochs=2, num_workers=num_workers)

    assert_same_epochs(loop(lambda data: late(cached_prefix(data))), loop(lambda data: data))


@pytest.mark.processes
def test_spawned_workers_make_items_as_ever() -> None:
    ours = late(Pictures())
    spawned = epochs(ours, num_workers=1, num_epochs=2, multiprocessing_context="spawn")
    assert_same_epochs(spawned, epochs(Pictures(), num_workers=1, num_epochs=2))
    assert ours.note is not None and "share no memory" in ours.note


def odd_sizes(picture: Any) -> Any:
    return picture[: 5 + int(picture[0, 0, 0]) % 2]


class Drops:
    """What comes out depends on the picture before, which the dataset keeps."""

    last: Any = 0

    def __call__(self, picture: Any) -> Any:
        self.last, before = picture, self.last
        return picture // 2 + before // 2


class Counts:
    """Knows how often it was called."""

    count = 0

    def __call__(self, picture: Any) -> Any:
        self.count += 1
        return picture


class Scaled(Bytes):
    """Works on what its transform returns."""

    def __getitem__(self, index: Any) -> Any:
        picture, label = super().__getitem__(index)
        return picture * 2, label


class Mine(Normalize):
    """Something else under a class of the script's own."""

    __module__ = "train"

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        return (picture - picture.mean()) / picture.std()


def changed() -> Any:
    step = Normalize(MEAN, STD)
    step.register_forward_hook(lambda _, __, result: result * 2)
    return Bytes(Compose([ToTensor(), step]))


def lying() -> Any:
    """Says that it is torchvision's, and is not."""
    step = ToTensor()
    kind = type(
        "ToTensor", (), {"__call__": lambda _, picture: step(picture) + 1e-7, "__module__": ToTensor.__module__}
    )
    return Bytes(Compose([kind()]))


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no pipeline": (lambda: Bytes(torch.from_numpy), "none of its transforms ends with ToTensor"),
    "noise at the end": (lambda: Bytes(Compose([ToTensor(), Noise()])), "none of its transforms ends with ToTensor"),
    "a class of the script's own": (lambda: Bytes(Compose([ToTensor(), Mine(0, 1)])), "none of its transforms"),
    "hooks": (changed, "none of its transforms"),
    "64 bits": (lambda: Bytes(Compose([ToImage(), ToDtype(torch.float64, scale=True)])), "none of its transforms"),
    "numbers already": (
        lambda: Bytes(Compose([ToTensor()]), make=lambda x: x.astype(np.float32)),
        "not given pictures of bytes",
    ),
    "other sizes": (lambda: Bytes(Compose([odd_sizes, ToTensor()])), "RuntimeError"),
    "works on them": (lambda: Scaled(Compose([Crop(), ToTensor()])), "it works on what its transforms return"),
    "other numbers": (lying, "comes out different"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_cannot_do_is_done_item_by_item_and_it_says_why(name: str) -> None:
    make, reason = REFUSED[name]
    ours = late(make())
    settings: dict[str, Any] = {"num_epochs": 2, "batch_size": 1 if name == "other sizes" else 8}
    assert_same_epochs(epochs(ours, **settings), epochs(make(), **settings))
    assert reason in ours.note


@pytest.mark.parametrize("settings", [{"collate_fn": list}, {"batch_size": None}])
def test_who_puts_items_together_himself_gets_them_as_they_are(settings: dict[str, Any]) -> None:
    ours = late(usual())
    assert_same_epochs(epochs(ours, **settings), epochs(usual(), **settings))
    assert ours.note is not None
    assert_same_epochs(epochs(Subset(ours, [1, 2])), epochs(Subset(usual(), [1, 2])))


def test_items_with_a_state_come_as_they_would() -> None:
    def make() -> Any:
        return Bytes(Compose([Drops(), ToTensor()]))

    assert_same_epochs(epochs(late(make())), epochs(make()))


def test_the_first_look_leaves_no_trace() -> None:
    counted = Counts()
    data = Bytes(Compose([counted, ToTensor()]))
    num_batches = len(epochs(late(data), num_epochs=1))
    assert num_batches == 3 and counted.count == 21


class SometimesLarge(Bytes):
    """One picture, which the first look does not meet, has another size; or is touched; or is no picture of bytes."""

    odd: Any = None

    def __getitem__(self, index: Any) -> Any:
        item = super().__getitem__(index)
        return self.odd(self, item) if index == 2 and self.odd is not None else item


def draws_and_touches(_: Any, item: Any) -> Any:
    torch.rand(1)
    return item[0] * 2, item[1]


def is_double(dataset: Any, item: Any) -> Any:
    return dataset.transform(np.zeros((9, 8, 3), dtype=np.float32)), item[1]


@pytest.mark.parametrize("odd", [draws_and_touches, is_double])
def test_an_odd_item_later_on_changes_nothing(odd: Any) -> None:
    def make() -> Any:
        data = SometimesLarge(Compose([Crop(), ToTensor()]))
        data.odd = odd
        return data

    ours = late(make())
    assert_same_epochs(epochs(ours), epochs(make()))
    assert (ours.note is not None) == (odd is draws_and_touches)


def test_an_item_that_fails_fails_as_it_would() -> None:
    def fails(*_: Any) -> Any:
        raise KeyError("no such picture")

    ours = late(SometimesLarge(Compose([Crop(), ToTensor()])))
    ours.odd = fails
    with pytest.raises(KeyError, match="no such picture"):
        epochs(ours)


def test_pictures_of_other_sizes_fail_as_they_would() -> None:
    for wrapped in (late, lambda data: data):
        data: Any = Bytes(Compose([lambda x: x, ToTensor()]))
        loader = DataLoader(wrapped(data), 8)
        next(iter(loader))
        data.transform.transforms[0] = odd_sizes
        with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
            list(loader)


def test_what_the_script_changes_between_epochs_counts() -> None:
    def loop(wrap: Callable[[Any], Any]) -> list[Any]:
        data: Any = usual()
        loader = DataLoader(wrap(data), 8)
        torch.manual_seed(0)
        seen = list(loader)
        data.transform.transforms[2].mean = (0.1, 0.2, 0.3)
        seen += list(loader)
        data.transform.transforms.append(Flip())
        seen += list(loader)
        data.transform = Compose([Crop(), ToTensor()])
        seen += list(loader)
        return [*seen, *list(loader)]

    assert equal(loop(late), loop(lambda data: data))


def test_what_the_script_changes_within_an_epoch_counts() -> None:
    def loop(wrap: Callable[[Any], Any]) -> list[Any]:
        data: Any = usual()
        torch.manual_seed(0)
        seen = []
        for number, batch in enumerate(DataLoader(wrap(data), 4)):
            seen.append(batch)
            if number == 1:
                data.transform.transforms[2].mean = (0.1, 0.2, 0.3)
            if number == 3:
                data.transform = Compose([Crop(), ToTensor()])
        return seen

    assert equal(loop(late), loop(lambda data: data))


def test_a_batch_is_the_scripts_own() -> None:
    loader = DataLoader(late(Bytes(ToTensor())), 8)
    kept = [batch[0] for batch in loader]
    copies = [picture.clone() for picture in kept]
    for batch in loader:
        batch[0].zero_()
    assert equal(kept, copies)


def test_another_default_type_is_the_scripts_own_way() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert_same_epochs(epochs(late(usual()), num_epochs=1), epochs(usual(), num_epochs=1))
    finally:
        torch.set_default_dtype(torch.float32)


def test_is_the_data_set_to_all_who_look() -> None:
    raw = usual()
    ours = late(raw)
    assert isinstance(ours, Bytes) and len(ours) == 21 and ours.transform is raw.transform
    assert late(ours) is ours
    with pytest.raises(UserError, match=r"Write late\(cached_prefix\(\.\.\.\)\)"):
        cached_prefix(ours)
    with pytest.raises(IndexError):
        ours[21]
    with pytest.raises(UserError, match="no items to look up by number"):
        late(iter([1]))


class Endless(Bytes):
    def __len__(self) -> int:
        raise NotImplementedError


def test_a_data_set_that_does_not_say_its_length_is_left_alone() -> None:
    data = Endless(ToTensor())
    assert late(data) is data


def test_where_no_process_can_be_started_all_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any, **__: Any) -> Any:
        raise AssertionError("daemonic processes are not allowed to have children")

    monkeypatch.setattr("hotlap.data.transforms.late.in_a_copy", refuses)
    ours = late(usual())
    assert_same_epochs(epochs(ours, num_epochs=1), epochs(usual(), num_epochs=1))
    assert "daemonic" in ours.note


def test_a_large_batch_is_done_in_parts() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (5, 200, 210, 3), dtype=np.uint8)
    tail = deferred_steps([ToTensor(), Normalize(MEAN, STD)])
    assert isinstance(tail, DeferredSteps)
    expected = torch.stack([Normalize(MEAN, STD)(ToTensor()(each)) for each in picture])
    made = tail.apply(torch.from_numpy(picture), torch.empty_like(expected), channels_last=True)
    assert torch.equal(made, expected)


@pytest.mark.parametrize("bad", [(), ("a",), [(1.0, 2.0)], None])
def test_settings_of_another_kind_are_no_tail(bad: Any) -> None:
    assert deferred_steps([ToTensor(), Normalize(bad, STD)]) is None or bad == ()


def test_a_refusal_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[Any] = []

    def refuses(action: Any, **_: Any) -> str:
        tries.append(action)
        return "not here"

    monkeypatch.setattr("hotlap.data.transforms.late.in_a_copy", refuses)
    loader = DataLoader(late(usual()), batch_size=4)
    for _ in range(3):
        next(iter(loader))
    assert len(tries) == 1
