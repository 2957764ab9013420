"""Generators of a script's own, wherever its variables hold them."""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from hotlap.probe.seeds import generators, sources


def data_set(generator: torch.Generator) -> Any:
    data = TensorDataset(torch.zeros(4))
    data.draws = generator  # type: ignore[attr-defined]
    return DataLoader(data)


@pytest.mark.parametrize(
    ("make", "draw"),
    [
        (lambda: torch.Generator().manual_seed(1), lambda own: torch.rand(1, generator=own)),
        (lambda: np.random.default_rng(1), lambda own: own.random()),
        (lambda: np.random.RandomState(1), lambda own: own.random_sample()),
        (lambda: random.Random(1), lambda own: own.random()),
        (lambda: SimpleNamespace(own=np.random.default_rng(1)), lambda made: made.own.random()),
        (lambda: data_set(torch.Generator()), lambda made: torch.rand(1, generator=made.dataset.draws)),
        (lambda: None, lambda _: torch.rand(1)),
    ],
    ids=["torch", "numpy", "old numpy", "python", "within an object", "of a data set", "global"],
)
def test_a_draw_of_any_generator_shows(make: Callable[[], Any], draw: Callable[[Any], object]) -> None:
    held_in_a_variable = make()
    own = generators()
    before = sources(own)
    assert sources(own) == before
    draw(held_in_a_variable)
    assert sources(own) != before
