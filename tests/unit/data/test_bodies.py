"""cached_prefix() where items are made by hand: the data set's own `__getitem__`, cut in front of its first draw."""

import linecache
import random
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, Subset

from hotlap.data import cached_prefix, late
from tests.unit.data.pictures import MEAN, STD, Bytes, Normalize, ToTensor
from tests.unit.data.pipelines import Compose as PlainCompose
from tests.unit.data.sets import assert_same_epochs, epochs

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="heads are kept on Linux only"),
    pytest.mark.usefixtures("any_head"),
]

SHIFT = 3.0
MADE = [0] * 100
"""How often heads were made. Where nobody looks."""


class ByHand(Dataset[Any]):
    def __init__(self, num_items: int = 40) -> None:
        self.num_items = num_items
        self.__secret = 2.0

    def __len__(self) -> int:
        return self.num_items

    def read(self, index: int) -> torch.Tensor:
        sys.modules[__name__].MADE[0] += 1
        return torch.arange(16.0).view(4, 4) * self.__secret + index


class Flips(ByHand):
    """Flips half of them."""

    def __getitem__(self, index: Any) -> Any:
        """A comment in between does no harm."""
        image = self.read(index)
        label = index % 7  # nor here
        if torch.rand(1).item() < 0.5:
            image = image.flip(1)
        return image + SHIFT, label


class Private(ByHand):
    def __init__(self) -> None:
        super().__init__()
        self.__scale = 3

    def __getitem__(self, index: Any) -> Any:
        image = self.read(index) * self.__scale
        index = index + 100
        image += random.random()
        return {"image": image * self.__scale, "number": index}


class Pieces(ByHand):
    """Names that are bound in all kinds of ways, or not at all."""

    def __getitem__(self, index: Any) -> Any:
        import math

        first, *others = [self.read(index) + shift for shift in range(3)]
        with torch.no_grad():
            total = sum(others)
        if index % 2:
            extra = torch.full((4, 4), math.pi)
        try:
            count = (0, 1, 2)[index % 4]
        except IndexError:
            count = -1
        if (mean := first.mean()) > 10:
            first = first - mean
        noise = np.random.rand(4, 4)
        rows = [row * count for row in first]
        if index % 2:
            first += extra
        return first, torch.stack(rows) + torch.from_numpy(noise) * math.e + total


class Arrays(ByHand):
    def __getitem__(self, index: Any) -> Any:
        values = np.frombuffer(bytes(range(index, index + 8)), np.uint8)
        if values.flags.writeable:
            raise ValueError("it was not when it was read")
        pair = (values.astype(np.float32), f"item {index}")
        return torch.from_numpy(pair[0]) * np.random.uniform(), pair[1], values.flags.writeable


class Own(ByHand):
    """A generator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = np.random.default_rng(3)

    def __getitem__(self, index: Any) -> Any:
        image = self.read(index)
        return image * self.generator.random()


class Inherits(Flips):
    pass


class Augment:
    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return image + torch.randn(4, 4)


class Compose:
    """Looks like a pipeline, but the data set draws beside it."""

    def __init__(self, *transforms: Any) -> None:
        self.transforms = [*transforms]

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image


class Beside(ByHand):
    def __init__(self) -> None:
        super().__init__()
        self.transform = Compose(torch.tanh, Augment())

    def __getitem__(self, index: Any) -> Any:
        image = self.read(index)
        if random.random() < 0.5:
            image = image.t().contiguous()
        return self.transform(image)


SETS: dict[str, Callable[[], Any]] = {
    "flips": Flips,
    "private": Private,
    "pieces": Pieces,
    "arrays": Arrays,
    "own generator": Own,
    "inherited": Inherits,
    "beside a pipeline": Beside,
    "subset": lambda: Subset(Flips(), list(range(35, 5, -1))),
    "subset of a subset": lambda: Subset(Subset(Flips(), range(30)), [3, 1, 4, 1, 5]),
}


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.processes)])
@pytest.mark.parametrize("name", SETS)
def test_items_and_generators_are_those_of_the_data_set_as_written(name: str, num_workers: int) -> None:
    ours = cached_prefix(SETS[name]())
    assert_same_epochs(epochs(ours, num_workers=num_workers), epochs(SETS[name](), num_workers=num_workers))
    assert ours.note is None, ours.note
    assert ours.num_cached >= (len(ours) if name != "subset of a subset" else 5)


def test_heads_are_made_once() -> None:
    ours = cached_prefix(Flips())
    epochs(ours, num_epochs=1)
    before = MADE[0]
    epochs(ours, num_epochs=3)
    assert MADE[0] - before <= 2, "one in 64 is made again"


class DrawsAtOnce(ByHand):
    def __getitem__(self, index: Any) -> Any:
        return self.read(index) + torch.rand(1), index


class LeavesEarly(ByHand):
    def __getitem__(self, index: Any) -> Any:
        if index == 3:
            return torch.zeros(4, 4)
        image = self.read(index)
        return image + torch.rand(1)


class Holder:
    def __init__(self, image: torch.Tensor) -> None:
        self.image = image


class Holds(ByHand):
    def __getitem__(self, index: Any) -> Any:
        holder = Holder(self.read(index))
        return holder.image + torch.rand(1)


class Same(ByHand):
    def __getitem__(self, index: Any) -> Any:
        image = self.read(index)
        return image * 2


class Keeps(ByHand):
    """Its second half changes what the first one looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.images = [torch.full((4, 4), float(number)) for number in range(200)]

    def __getitem__(self, index: Any) -> Any:
        image = self.images[index]
        image += torch.rand(1)
        return image.clone()


def in_a_closure() -> Any:
    shift = 4.0

    class Closed(ByHand):
        def __getitem__(self, index: Any) -> Any:
            image = self.read(index) + shift
            return image + torch.rand(1)

    return Closed()


def without_source() -> Any:
    body = "def __getitem__(self, index):\n    image = self.read(index)\n    return image + torch.rand(1)\n"
    names = {"torch": torch}
    exec(body, names)
    return type("Made", (ByHand,), {"__getitem__": names["__getitem__"]})()


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "draws at once": (DrawsAtOnce, "in its first statement"),
    "leaves early": (LeavesEarly, "in its first statement"),
    "holds": (Holds, "is handed a"),
    "always the same": (Same, "draws nothing"),
    "changes what it looked up": (Keeps, "comes out different"),
    "closure": (in_a_closure, "no plain method"),
    "no source": (without_source, "source of its __getitem__"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_cut_is_left_as_it_is_and_it_is_said(name: str) -> None:
    make, reason = REFUSED[name]
    ours = cached_prefix(make())
    if name != "changes what it looked up":  # each look changes it, ours as well
        assert_same_epochs(epochs(ours), epochs(make()))
    else:
        epochs(ours)
    assert ours.note is not None
    assert reason in ours.note
    assert ours.num_cached == 0


def test_the_text_on_disk_may_have_changed_elsewhere(tmp_path: Path) -> None:
    """As where a patched text runs in place of the file."""
    text = f"""import torch
PATTERN = "\\d"
from {__name__} import ByHand


class Photographs(ByHand):
    def __getitem__(self, index):
        image = self.read(index)
        return torch.nn.functional.relu(image) + torch.rand(1)
"""
    names: dict[str, Any] = {"__name__": "photographs"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the escape, as Python says once where a module is imported
        code = compile(text, str(tmp_path / "photographs.py"), "exec")
    exec(code, names)
    warnings.simplefilter("error", SyntaxWarning)
    (tmp_path / "photographs.py").write_text("import os\n\nNUMBER = 3\n" + text)
    ours = cached_prefix(names["Photographs"]())
    assert_same_epochs(epochs(ours), epochs(names["Photographs"]()))
    assert ours.note is None, ours.note
    (tmp_path / "photographs.py").write_text(text.replace("relu", "silu"))
    linecache.clearcache()
    other = cached_prefix(names["Photographs"]())
    epochs(other)
    assert other.note is not None
    assert "was not found" in other.note


def test_an_error_of_the_data_set_is_its_own() -> None:
    class Fails(Flips):
        def read(self, index: int) -> torch.Tensor:
            if index == 21:
                raise ValueError("item 21 is broken")
            return super().read(index)

    with pytest.raises(ValueError, match="item 21 is broken"):
        epochs(cached_prefix(Fails()), shuffle=False)


def test_late_around_it_leaves_it_alone() -> None:
    """Its transforms end as `late` wants it, but what is kept ends before they are called."""

    class Mirrored(Bytes):
        def __getitem__(self, index: Any) -> Any:
            picture = np.random.default_rng(int(index)).integers(0, 256, (9, 8, 3), dtype=np.uint8)
            if torch.rand(1).item() < 0.5:
                picture = picture[:, ::-1].copy()
            return self.transform(picture), index

    ours, plain = (Mirrored(PlainCompose([ToTensor(), Normalize(MEAN, STD)])) for _ in range(2))
    kept = cached_prefix(ours)
    around = late(kept)
    assert_same_epochs(epochs(around), epochs(plain))
    assert kept.num_cached == len(ours)
    assert around.note is not None
    assert "between two statements" in around.note
