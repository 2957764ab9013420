"""prefetched(): the same batches, made while the training goes on; and who must not be read ahead."""

import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from hotlap.data import prefetched
from hotlap.errors import UserError
from tests.unit.data.sets import assert_same_epochs, seed, states


class Stream(IterableDataset[Any]):
    def __init__(self, num_items: int = 200) -> None:
        self.num_items = num_items

    def __iter__(self) -> Iterator[Any]:
        for number in range(self.num_items):
            yield torch.full((3,), float(number)), number


def walk(dataset: Any, *, breaks: int = 10**6, num_epochs: int = 3, **settings: Any) -> list[Any]:
    seed()
    loader = DataLoader(dataset, **{"batch_size": 2, **settings})
    seen = []
    for _ in range(num_epochs):
        for number, batch in enumerate(loader):
            torch.rand(2), random.random()  # the training draws as well
            seen.append((batch, states()))
            if number == breaks:
                break
    return seen


@pytest.mark.parametrize("settings", [{}, {"breaks": 9}, {"batch_size": None}, {"drop_last": True, "batch_size": 7}])
def test_batches_and_states_are_those_of_the_script(settings: dict[str, Any]) -> None:
    ours = prefetched(Stream())
    assert_same_epochs(walk(ours, **settings), walk(Stream(), **settings))
    assert ours.note is None


class Threads(Stream):
    def __iter__(self) -> Iterator[Any]:
        for _ in range(self.num_items):
            yield threading.current_thread() is not threading.main_thread()


def test_most_batches_are_made_in_a_thread() -> None:
    seen = [bool(batch.all()) for batch in DataLoader(prefetched(Threads(400)), batch_size=2)]
    assert sum(seen) > 0.8 * len(seen) and not any(seen[:4])
    ours = [thread for thread in threading.enumerate() if thread.name.startswith("hotlap")]
    for thread in ours:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in ours)


class Draws(Stream):
    def __iter__(self) -> Iterator[Any]:
        for number in range(self.num_items):
            yield number + random.random()


class DrawsLate(Stream):
    def __iter__(self) -> Iterator[Any]:
        for number in range(self.num_items):
            yield number + (float(torch.rand(())) if number in (128, 129) else 0.0)


class Counts(Stream):
    calls = 0

    def __iter__(self) -> Iterator[Any]:
        for number in range(self.num_items):
            self.calls += 1
            yield number


class GoesOn(Stream):
    def __init__(self) -> None:
        super().__init__()
        self.source = iter(range(1000))

    def __iter__(self) -> Iterator[Any]:
        yield from (next(self.source) for _ in range(self.num_items))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(Draws, "draws random numbers"), (Counts, "changes"), (GoesOn, "goes on where it was left")],
)
def test_who_would_notice_is_read_in_the_training_thread(kind: type[Stream], reason: str) -> None:
    ours = prefetched(kind())
    assert_same_epochs(walk(ours, breaks=20), walk(kind(), breaks=20))
    assert ours.note is not None and reason in ours.note


def test_draws_are_looked_for_later_on_too() -> None:
    ours = prefetched(DrawsLate())
    walk(ours, num_epochs=1)
    assert ours.note is not None and "draws" in ours.note


def test_batches_that_memory_has_no_room_for_are_not_made_ahead() -> None:
    ours = prefetched(Threads(), memory_bytes=100)
    assert not any(bool(batch.any()) for batch in DataLoader(ours, batch_size=2))
    assert ours.note is not None and "of memory, and 100 B may be used" in ours.note


class Fails(Stream):
    def __iter__(self) -> Iterator[Any]:
        yield from range(30)
        raise ValueError("item 30 is broken")


def test_an_error_comes_with_its_batch() -> None:
    seen: list[Any] = []
    with pytest.raises(ValueError, match="item 30 is broken"):
        seen.extend(batch.tolist() for batch in DataLoader(prefetched(Fails()), batch_size=4))
    assert len(seen) == 7


def test_it_looks_like_the_data_set() -> None:
    ours = prefetched(Stream(7))
    assert isinstance(ours, Stream) and ours.num_items == 7
    ours.num_items = 3
    assert len(list(ours)) == 3 and prefetched(ours) is ours


def test_a_data_set_with_items_is_refused() -> None:
    with pytest.raises(UserError, match="no IterableDataset"):
        prefetched([1, 2])
