"""The code of a `__getitem__` is cut where it first draws, and its halves make the item that the whole makes."""

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import ConcatDataset, Dataset, Subset

from hotlap.data import cached_prefix
from tests.unit.data.pipelines import Compose, Slow
from tests.unit.data.sets import assert_same_epochs, epochs, equal, seed

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

LOADED = [0]
"""How often."""


class Rows(Dataset[Any]):
    """`load` is the costly part."""

    def __init__(self, num_items: int = 24) -> None:
        self.num_items = num_items
        self.scale = 2.0

    def __len__(self) -> int:
        return self.num_items

    def load(self, index: Any) -> Any:
        globals()["LOADED"][0] += 1
        return torch.arange(12.0).view(3, 4) + index

    def noisy(self, value: Any) -> Any:
        return value.add_(random.random())

    def __getitem__(self, index: Any) -> Any:
        row = self.load(index)
        if torch.rand(()) < 0.5:
            row = row.flip(1)
        return row * self.scale, index


class Looped(Rows):
    """Its head has a loop, an import, a function and a comprehension."""

    def __getitem__(self, index: Any) -> Any:
        import math

        total = self.load(index)
        for power in range(3):
            total = total + power**2
        parts = [total[k].clone() for k in range(2)]
        noise = torch.rand(4)

        def added(part: Any) -> Any:
            return part + noise * math.pi

        return [added(part) for part in parts]


class Numbered(Rows):
    def __getitem__(self, number: Any) -> Any:
        number = (number * 7) % self.num_items
        row = self.load(number)
        row[0] += torch.randn(4)
        return row, number


class Private(Rows):
    __offset = 3.0

    def __getitem__(self, index: Any) -> Any:
        row = self.load(index) + self.__offset
        return row * random.random() + self.__offset


class Photograph(Rows):
    def __getitem__(self, index: Any) -> Any:
        image = Image.fromarray(np.full((9, 9, 3), index, np.uint8)).resize((7, 7))
        left = random.randrange(3)
        image = image.crop((left, 0, left + 4, 4))
        return torch.from_numpy(np.array(image)), index


class Views(Rows):
    def __getitem__(self, index: Any) -> Any:
        row = self.load(index)
        view = row[1:]
        return self.noisy(view), view.sum()


class Around(Dataset[Any]):
    """Draws around a data set that does not."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        row, label = self.dataset[index]
        return row + torch.rand_like(row), label


class Plain(Rows):
    def __getitem__(self, index: Any) -> Any:
        return self.load(index), index


class Derived(Plain):
    def __getitem__(self, index: Any) -> Any:
        row, label = super().__getitem__(index)
        return row + torch.rand(()), label


class WithTransform(Rows):
    """Works on what its transforms return, which draw nothing."""

    transform = Compose([Slow()])

    def __getitem__(self, index: Any) -> Any:
        row = self.transform(self.load(index))
        if random.random() < 0.5:
            row = row.flip(0)
        return row


class DrawsFirst(Rows):
    """In front of its transforms."""

    transform = Compose([Slow()])

    def __getitem__(self, index: Any) -> Any:
        row = self.load(index)
        row = row.roll(random.randrange(3), 0)
        return self.transform(row)


def closed_over(scale: float) -> Any:
    class Local(Rows):
        def __getitem__(self, index: Any) -> Any:
            row = self.load(index) * scale
            return row + torch.rand(()) * scale

    return Local()


SETS: dict[str, Callable[[], Any]] = {
    "statements": Rows,
    "loop": Looped,
    "another index": Numbered,
    "super": Derived,
    "private": Private,
    "picture": Photograph,
    "subset": lambda: Subset(Rows(), range(3, 20)),
    "chain": lambda: ConcatDataset([Rows(9), Rows(6)]),
    "around": lambda: Around(Plain()),
    "around a subset": lambda: Around(Subset(Plain(), range(20))),
    "a subset of one around another": lambda: Subset(Around(Plain()), range(1, 20)),
    "closure": lambda: closed_over(1.5),
    "transforms in front": WithTransform,
    "transforms behind": DrawsFirst,
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.processes)])
def test_items_draws_and_states_are_those_of_the_script(name: str, num_workers: int) -> None:
    ours = cached_prefix(SETS[name]())
    settings: dict[str, Any] = {"num_workers": num_workers}
    assert_same_epochs(epochs(ours, **settings), epochs(SETS[name](), **settings))
    assert ours.note is None
    assert ours.num_cached == len(ours)


def test_the_head_runs_once() -> None:
    ours = cached_prefix(Rows())
    epochs(ours, num_epochs=1)
    LOADED[0] = 0
    epochs(ours)
    assert LOADED[0] < 4  # but for those that are computed again


def test_a_setting_of_the_tail_may_change_at_any_time() -> None:
    ours, plain = cached_prefix(Rows()), Rows()
    seed()
    mine = [ours[k] for k in range(24)]
    seed()
    assert equal(mine, [plain[k] for k in range(24)])
    ours.scale = plain.scale = 5.0
    seed()
    mine = [ours[k] for k in range(24)]
    seed()
    assert equal(mine, [plain[k] for k in range(24)])


class Returns(Rows):
    def __getitem__(self, index: Any) -> Any:
        if index < 0:
            return self.load(0)
        row = self.load(index)
        return self.noisy(row)


class InOneStatement(Rows):
    def __getitem__(self, index: Any) -> Any:
        return self.noisy(self.load(index))


class ByLocals(Rows):
    def __getitem__(self, index: Any) -> Any:
        row = self.load(index)
        noise = torch.rand(())
        return locals()["row"] + noise


class Decorated(Rows):
    @torch.no_grad()
    def __getitem__(self, index: Any) -> Any:
        row = self.load(index)
        return self.noisy(row)


class Holds(Rows):
    def __getitem__(self, index: Any) -> Any:
        model = nn.Linear(4, 4) if index < -1 else object()
        row = self.load(index)
        row = row + torch.rand(())
        return row if model is not None else 0


class Entangled(Rows):
    """Its tail may write to what two of its variables share."""

    def __getitem__(self, index: Any) -> Any:
        row = self.load(index)
        view = self.part_of(row)
        if torch.rand(()) < 0.01:
            view.zero_()
        return row

    def part_of(self, row: Any) -> Any:
        return row[1:]


class EntangledArray(Entangled):
    def load(self, index: Any) -> Any:
        return np.full((3, 4), index)

    def part_of(self, row: Any) -> Any:
        return torch.from_numpy(row)


class Elsewhere(Rows):
    pass


exec("def item(self, index):\n row = self.load(index)\n return self.noisy(row)\nElsewhere.__getitem__ = item")


class Hidden(Rows):
    """Its items differ by what no one sees."""

    def __getitem__(self, index: Any) -> Any:
        row = self.load(index) + next(COUNT)
        return self.noisy(row)


COUNT = itertools.count()

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "draws nothing": (Plain, "draws no random numbers"),
    "may return": (Returns, "may return"),
    "in one statement": (InOneStatement, "first of all"),
    "locals": (ByLocals, "more than a function"),
    "decorated": (Decorated, "not found"),
    "objects": (Holds, "it holds a"),
    "entangled": (Entangled, "share memory"),
    "entangled with an array": (EntangledArray, "share memory"),
    "not in its class": (Elsewhere, "not found"),
    "hidden state": (Hidden, "different"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_cut_is_left_as_it_is_and_it_is_said(name: str) -> None:
    make, reason = REFUSED[name]
    ours = cached_prefix(make())
    globals()["COUNT"] = itertools.count()
    mine = epochs(ours)
    if name != "hidden state":
        assert_same_epochs(mine, epochs(make()))
    assert ours.note is not None and reason in ours.note
    assert ours.num_cached == 0
