"""Behind cached_prefix(), pictures become numbers a batch at a time: the numbers of the script, in the same places."""

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import Subset, default_collate

from hotlap.data import cached_prefix
from hotlap.data.item import pictures
from hotlap.data.prefix_cache.pipelines import look_up_last_steps
from tests.unit.data.pictures import (
    MEAN,
    STD,
    Bytes,
    ConvertImageDtype,
    Named,
    Normalize,
    PaddedCrop,
    PILToTensor,
    ResizedCrop,
    ToDtype,
    ToImage,
    ToTensor,
)
from tests.unit.data.pipelines import Compose, Noise
from tests.unit.data.sets import Marked, assert_same_epochs, epochs, equal

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.skipif(pictures._columns_first() is None, reason="the native core does not do as this Pillow"),
]


class RandomCrop:
    """Draws, and returns a part of a picture as it is."""

    def __call__(self, picture: Any) -> Any:
        left, top = (int(torch.randint(0, 3, (1,))) for _ in range(2))
        return picture.crop((left, top, left + 5, top + 6))


def photographs(*steps: Any, **settings: Any) -> Bytes:
    return Bytes(Compose([ResizedCrop(), *steps]), **{"make": Image.fromarray, **settings})


def usual(**settings: Any) -> Bytes:
    return photographs(ToTensor(), Normalize(MEAN, STD), **settings)


class TwoViews(Bytes):
    def __getitem__(self, index: Any) -> Any:
        picture = Image.fromarray(np.random.default_rng(index).integers(0, 256, (9, 8, 3), np.uint8))
        return {"one": self.transform(picture), "two": self.transform(picture), "label": f"n{index}"}


class Painted(TwoViews):
    """What is handed to the second call is what the first one returned, painted over."""

    def __init__(self) -> None:
        super().__init__(Compose([paint, ToTensor(), Normalize(MEAN, STD)]))


def paint(picture: Any) -> Any:
    picture.putpixel((1, 2), (int(torch.randint(0, 256, (1,))), 0, 255))
    return picture


class Targets(Bytes):
    target_transform = Compose([lambda label: label + 1])

    def __getitem__(self, index: Any) -> Any:
        picture, label = super().__getitem__(index)
        return picture, self.target_transform(label)


SERVED: dict[str, Callable[[], Any]] = {
    "usual": usual,
    "alone": lambda: photographs(ToTensor()),
    "grey": lambda: photographs(ToTensor(), Normalize((0.1307,), (0.3081,)), num_channels=1),
    "one constant": lambda: photographs(ToTensor(), Normalize(0.5, torch.tensor([0.25]))),
    "twice": lambda: photographs(ToTensor(), Normalize(MEAN, STD), Normalize(STD, MEAN)),
    "cropped only": lambda: Bytes(Compose([RandomCrop(), ToTensor(), Normalize(MEAN, STD)]), make=Image.fromarray),
    "padded": lambda: Bytes(Compose([PaddedCrop(7, 4), ToTensor(), Normalize(MEAN, STD)]), make=Image.fromarray),
    "padded, grey": lambda: Bytes(Compose([PaddedCrop(3, 1), ToTensor()]), num_channels=1, make=Image.fromarray),
    "padded twice": lambda: photographs(PaddedCrop(8, 3), PaddedCrop(6, 2), ToTensor()),
    "padded in colour": lambda: photographs(
        PaddedCrop(6, (2, 1), fill=(1, 2, 3)), PaddedCrop(6, 2, fill=7), ToTensor()
    ),
    "rotated": lambda: photographs(lambda picture: picture.rotate(90), ToTensor()),
    "second version": lambda: photographs(ToImage(), ToDtype(torch.float32, scale=True), Normalize(MEAN, STD)),
    "channels last": lambda: photographs(PILToTensor(), ConvertImageDtype(torch.float32), Normalize(MEAN, STD)),
    "not scaled": lambda: photographs(ToImage(), ToDtype(torch.float32)),
    "a Sequential": lambda: Bytes(nn.Sequential(Drawn(), ToImage(), ToDtype(torch.float32)), make=Image.fromarray),
    "some of them": lambda: Subset(usual(), range(3, 19)),
    "dict": lambda: usual(build=lambda x, y: {"name": f"n{y}", "inner": [y, {"x": x}]}),
    "named": lambda: usual(build=Named),
    "the picture alone": lambda: usual(build=lambda x, _: x),
    "two views": lambda: TwoViews(Compose([ResizedCrop(), ToTensor(), Normalize(MEAN, STD)])),
    "painted": Painted,
    "target": lambda: Targets(Compose([ResizedCrop(), ToTensor()]), make=Image.fromarray),
}


class Drawn(nn.Module):
    def forward(self, picture: Any) -> Any:
        return ResizedCrop()(picture)


CONVERTED = [0] * 100
"""Where nobody looks."""


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each picture that goes through the script's own steps to a tensor is in CONVERTED."""
    for kind, name in ((ToTensor, "__call__"), (PILToTensor, "__call__"), (ToImage, "forward")):
        convert = getattr(kind, name)

        def counts(step: Any, picture: Any, convert: Any = convert) -> Any:
            if picture.size != (16, 16):  # of all bytes
                sys.modules[__name__].CONVERTED.append(1)
            return convert(step, picture)

        monkeypatch.setattr(kind, name, counts)


@pytest.mark.parametrize("name", SERVED)
@pytest.mark.usefixtures("counted")
def test_batches_and_states_are_those_of_the_script(name: str) -> None:
    ours = cached_prefix(SERVED[name]())
    for given in ({}, {"shuffle": False, "batch_size": 1}, {"drop_last": True, "batch_size": 5}):
        assert_same_epochs(epochs(ours, num_epochs=2, **given), epochs(SERVED[name](), num_epochs=2, **given))
        num_before = len(CONVERTED)
        seen = epochs(ours, num_epochs=1, **given)
        assert len(CONVERTED) == num_before, "each kind of batch was compared with torch's before"
        assert_same_epochs(seen, epochs(SERVED[name](), num_epochs=1, **given))
    assert ours.note is None


@pytest.mark.parametrize("name", SERVED)
def test_items_without_a_loader_are_those_of_the_script(name: str) -> None:
    ours, plain = cached_prefix(SERVED[name]()), SERVED[name]()
    for _ in range(2):
        for index in range(len(plain)):
            state = torch.get_rng_state()
            item = ours[index]
            torch.set_rng_state(state)
            assert equal(default_collate([item]), default_collate([plain[index]]))


class Mine(Normalize):
    """Something else under a class of the script's own."""

    __module__ = "train"

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        return (picture - picture.mean()) / picture.std()


def hooked() -> Any:
    step = Normalize(MEAN, STD)
    step.register_forward_hook(lambda _, __, result: result - result.mean())
    return photographs(ToTensor(), step)


def lying() -> Any:
    """Says that it is torchvision's, and is not: a number depends on others."""
    step = ToTensor()
    kind = type("ToTensor", (), {"__call__": lambda _, x: step(x).sort(1).values, "__module__": ToTensor.__module__})
    return photographs(kind())


def cut_short(picture: Any) -> Any:
    return picture.crop((0, 0, 6, 3 + int(torch.randint(0, 2, (1,)))))


ASIDE: dict[str, Callable[[], Any]] = {
    "noise at the end": lambda: photographs(ToTensor(), Noise()),
    "a class of the script's own": lambda: photographs(ToTensor(), Mine(MEAN, STD)),
    "hooks": hooked,
    "other numbers": lying,
    "64 bits": lambda: photographs(ToImage(), ToDtype(torch.float64, scale=True)),
    "other sizes": lambda: photographs(cut_short, ToTensor()),
    "arrays": lambda: Bytes(Compose([ResizedCrop(), np.array, ToTensor()]), make=Image.fromarray),
    "with alpha": lambda: photographs(ToTensor(), num_channels=4),
    "built in two ways": lambda: usual(build=lambda x, y: (x, "none") if y % 2 else ("none", y)),
    "thrown away": lambda: usual(build=lambda x, y: y),
    "in two places": lambda: usual(build=lambda x, y: (x, y, x)),
}


@pytest.mark.parametrize("name", ["padded", "padded, grey", "padded twice"])
def test_black_around_a_picture_is_no_picture_of_pils(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = cached_prefix(SERVED[name]())
    epochs(ours, num_epochs=1)  # the first batch of each kind is made both ways
    monkeypatch.setattr(pictures.LazyPicture, "_pils_own", lambda _: pytest.fail("it became one"))
    epochs(ours, num_epochs=1)


@pytest.mark.parametrize("name", ASIDE)
def test_what_cannot_wait_is_done_item_by_item(name: str) -> None:
    ours = cached_prefix(ASIDE[name]())
    given = {"batch_size": 1 if name in ("other sizes", "built in two ways") else 8}
    assert_same_epochs(epochs(ours, num_epochs=3, **given), epochs(ASIDE[name](), num_epochs=3, **given))
    assert ours.note is None and ours.num_cached == len(ours)


class Marks(ToImage):
    """As torchvision's."""

    __module__ = ToImage.__module__

    def forward(self, picture: Any) -> torch.Tensor:
        return super().forward(picture).as_subclass(Marked)


Marks.__name__ = "ToImage"


def of_any_width(picture: Any) -> Any:
    return picture.resize((20 + int(torch.randint(0, 17, (1,))), 8))


ALONE: dict[str, Callable[[], Any]] = {
    "no pipeline": lambda: Bytes(ToTensor(), make=Image.fromarray),
    "no pipeline, grey": lambda: Bytes(ToTensor(), num_channels=1, make=Image.fromarray),
    "bytes": lambda: photographs(PILToTensor()),
    "marked": lambda: photographs(Marks()),
    "many sizes": lambda: photographs(of_any_width, ToTensor()),
}


@pytest.mark.parametrize("name", [*SERVED, *ASIDE, *ALONE])
@pytest.mark.usefixtures("counted")
def test_items_whose_last_steps_are_looked_up_are_those_of_the_script(name: str) -> None:
    make = {**SERVED, **ASIDE, **ALONE}[name]
    ours, plain = make(), make()
    look_up_last_steps(ours)
    for index in range(2 * len(plain)):
        seen = []
        for dataset in (plain, ours):
            for seed in (random.seed, np.random.seed, torch.manual_seed):
                seed(index)
            num_before = len(CONVERTED)
            seen.append((dataset[index % len(plain)], random.random(), torch.rand(())))
        assert equal(*seen)
        looks_up = name in SERVED or "no pipeline" in name or name in ("bytes", "marked")
        assert len(CONVERTED) == num_before + (index == 0) or not looks_up


def test_items_built_in_two_ways_fail_as_they_would() -> None:
    with pytest.raises(TypeError) as expected:
        epochs(ASIDE["built in two ways"](), shuffle=False)
    with pytest.raises(TypeError) as seen:
        epochs(cached_prefix(ASIDE["built in two ways"]()), shuffle=False)
    assert str(seen.value) == str(expected.value)


@pytest.mark.parametrize("settings", [{"collate_fn": list}, {"batch_size": None}])
def test_who_puts_items_together_himself_gets_them_as_they_are(settings: dict[str, Any]) -> None:
    assert_same_epochs(epochs(cached_prefix(usual()), **settings), epochs(usual(), **settings))


@pytest.mark.processes
@pytest.mark.parametrize("persistent", [False, True])
def test_workers_send_the_batches_of_the_script(persistent: bool) -> None:
    settings: dict[str, Any] = {"num_workers": 2, "persistent_workers": persistent}
    assert_same_epochs(epochs(cached_prefix(usual()), **settings), epochs(usual(), **settings))


def test_constants_that_the_script_changes_are_those_of_the_next_batch() -> None:
    def run(dataset: Any) -> list[Any]:
        seen = epochs(dataset, num_epochs=1)
        dataset.transform.transforms[-1].mean = (0.1, 0.2, 0.3)
        return seen + epochs(dataset, num_epochs=2)

    assert_same_epochs(run(cached_prefix(usual())), run(usual()))


def test_numbers_of_64_bits_are_those_of_the_script() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert_same_epochs(epochs(cached_prefix(usual())), epochs(usual()))
    finally:
        torch.set_default_dtype(torch.float32)


def test_threads_share_the_pictures_of_a_batch() -> None:
    ours, threads = cached_prefix(usual()), torch.get_num_threads()
    try:
        for num_threads in (1, 3, 30):
            torch.set_num_threads(num_threads)
            assert_same_epochs(epochs(ours), epochs(usual()))
    finally:
        torch.set_num_threads(threads)
