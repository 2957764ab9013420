"""A small training over cached(): the same losses, bit for bit."""

import random
from typing import Any

import pytest
import torch
from torch.utils.data import (
    DataLoader,
)

from hotlap.data import cached
from tests.unit.data.sets import Pictures, epochs, seed


def losses(dataset: Any, *, noise: bool) -> list[float]:
    seed()
    model = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(16, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 7)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    result = []
    for _ in range(3):
        for images, labels in DataLoader(dataset, batch_size=8, shuffle=True):
            images.mul_(0.01)
            if noise:
                images.add_(random.random() * torch.rand_like(images))
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            result.append(loss.item())
    return result


@pytest.mark.parametrize("noise", [False, True])
def test_training_gives_the_same_losses_bit_for_bit(noise: bool) -> None:
    assert losses(cached(Pictures()), noise=noise) == losses(Pictures(), noise=noise)


class Augmented(Pictures):
    def __getitem__(self, index: Any) -> Any:
        image, label = super().__getitem__(index)
        return (image.flip(-1) if torch.rand(()) < 0.5 else image) + random.random(), label


def test_training_with_augmentation_gives_the_same_losses_bit_for_bit() -> None:
    kept = cached(Augmented())
    assert losses(kept, noise=True) == losses(Augmented(), noise=True)
    assert kept.note is not None


def test_is_settled_when_it_is_full_or_gave_up_or_hardly_computes() -> None:
    full, random_items, dropping = cached(Pictures()), cached(Augmented()), cached(Pictures(57))
    assert not full._hotlap_cache.settled and not full._hotlap_cache.used
    epochs(full, num_epochs=1)
    epochs(random_items, num_epochs=1)
    assert full._hotlap_cache.settled and random_items._hotlap_cache.settled
    seed()
    for _ in range(60):
        list(DataLoader(dropping, batch_sampler=[list(range(start, start + 8)) for start in range(0, 48, 8)]))
    assert dropping.num_cached == 48 and not dropping.full
    assert dropping._hotlap_cache.settled
