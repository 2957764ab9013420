"""Generators of a script's own, wherever its variables hold them."""

import pickle
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from hotlap.data.checks.random_state import GENERATORS
from hotlap.levers.lever import Patch
from hotlap.probe.seeds import generators, shift, sources


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


def test_generators_that_are_made_later_are_known_as_long_as_they_are_there() -> None:
    patch = Patch()
    try:
        made = shift(3, patch)
        held = torch.Generator("cpu").manual_seed(1)
        assert list(made().values()) == [held]
        assert torch.equal(torch.rand(2, generator=held), torch.rand(2, generator=torch.Generator().manual_seed(1)))
        assert held.initial_seed() == 4
        assert list(made().values()) == [held]
    finally:
        patch.undo()
    assert type(torch.Generator()) is not type(held)


@pytest.mark.parametrize(
    "seeded",
    [
        lambda seed: torch.manual_seed(seed=seed),
        lambda seed: random.seed(a=seed),
        lambda seed: random.seed(seed, version=2),
        random.Random,
        lambda seed: np.random.seed(np.int64(seed)),
        lambda seed: np.random.default_rng(seed=seed),
        lambda seed: np.random.RandomState(seed),  # noqa: PLW0108 - it is another class by then
        lambda seed: np.random.RandomState(seed=np.uint8(seed)),
        lambda seed: torch.Generator().manual_seed(seed),
    ],
)
def test_every_way_to_set_a_seed_is_shifted(seeded: Callable[[int], Any]) -> None:
    def state(seed: int) -> str:
        made = seeded(seed)
        return sources([made] if isinstance(made, GENERATORS) else [])

    state(7)  # the global generators that this one leaves alone
    expected = state(255)
    patch = Patch()
    shift(248, patch)
    try:
        found = state(7)
    finally:
        patch.undo()
    assert found == expected != state(7)


@pytest.mark.parametrize(
    "seeded",
    [
        lambda: torch.manual_seed(2**64 - 1),
        lambda: torch.manual_seed(-1),
        lambda: torch.Generator().manual_seed(2**64 - 1),
        lambda: random.seed(2**64 - 1),
        lambda: np.random.seed(2**32 - 1),
        lambda: np.random.RandomState(2**32 - 1),
        lambda: np.random.RandomState().seed(2**32 - 1),
        lambda: np.random.default_rng(2**64 - 1),
    ],
)
def test_the_largest_seed_can_be_shifted(seeded: Callable[[], object]) -> None:
    patch = Patch()
    shift(1, patch)
    try:
        seeded()
    finally:
        patch.undo()


def test_a_shift_by_0_changes_no_seed() -> None:
    def drawn() -> tuple[float, ...]:
        random.seed(-5)
        return random.random(), random.Random(2**70).random(), float(np.random.default_rng(2**70).random())

    expected = drawn()
    patch = Patch()
    shift(0, patch)
    try:
        assert drawn() == expected
    finally:
        patch.undo()


def test_generators_are_of_the_classes_that_a_script_sees_and_of_no_others() -> None:
    class Before(np.random.RandomState):
        pass

    patch = Patch()
    shift(1, patch)
    try:

        class Own(np.random.RandomState):
            pass

        class OwnOfTorch(torch.Generator):
            pass

        assert isinstance(Before(0), np.random.RandomState) and isinstance(Own(0), np.random.RandomState)
        assert isinstance(Own(0), Own) and not isinstance(np.random.RandomState(0), Own)
        assert not isinstance(np.random.mtrand._rand, Own)
        assert isinstance(torch.default_generator, torch.Generator)
        assert not isinstance(torch.default_generator, OwnOfTorch)
        assert isinstance(torch.Generator(), torch.Generator) and not isinstance(torch.Generator(), OwnOfTorch)
    finally:
        patch.undo()


def test_numpys_generators_are_still_of_its_class_and_can_be_pickled() -> None:
    patch = Patch()
    shift(3, patch)
    try:
        made = np.random.RandomState(1)
        assert isinstance(np.random.mtrand._rand, np.random.RandomState)
        assert pickle.loads(pickle.dumps(made)).random() == np.random.RandomState(1).random()
    finally:
        patch.undo()
