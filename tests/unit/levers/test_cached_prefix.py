"""cached-prefix on loaders: a lever that found nothing to work on was not tried."""

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from hotlap.data import cached_prefix
from hotlap.levers.data_wrappers import CachedPrefix
from hotlap.probe.arms import Arms
from hotlap.record import Plan


class Doubled(nn.Module):
    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return 2 * image


class Noise(nn.Module):
    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return image + torch.rand(1)


class Photographs(Dataset[Any]):
    def __init__(self) -> None:
        self.transform = nn.Sequential(Doubled(), Noise())

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: Any) -> Any:
        return self.transform(torch.full((2, 2), float(index)))


class AtOnce(Photographs):
    def __getitem__(self, index: Any) -> Any:
        return torch.rand(1) + torch.full((2, 2), float(index))


def test_the_record_says_that_it_was_not_at_work() -> None:
    arms = Arms(Plan(command=("x",), cwd=".", out=".", always=(CachedPrefix().spec(),)))
    arms.install()
    (told,) = arms.not_installed
    assert told.startswith("cached-prefix: cached_prefix() was given nothing")
    dataset = cached_prefix(AtOnce())
    assert arms.not_installed == []
    list(DataLoader(dataset))
    (told,) = arms.not_installed
    assert told.startswith("cached-prefix: the prefix of AtOnce is not kept")
    works = cached_prefix(Photographs())
    list(DataLoader(works))
    assert arms.not_installed == [], "one is"
