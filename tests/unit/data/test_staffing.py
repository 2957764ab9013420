"""Workers for loaders that have none: the same samples in the same order, or a reason."""

import random
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, Sampler

from hotlap.data import staffing, workers
from hotlap.data.staffing import Staffing
from hotlap.data.tree_memory import tree_bytes
from tests.unit.data.sets import Pictures, assert_same_epochs, seed, states


@pytest.fixture(autouse=True)
def forks() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12, about any DataLoader's workers
        yield


def walk(given: dict[str, Any]) -> list[Any]:
    seed()
    loader: Any = DataLoader(**given)
    return [(batch, states()) for _ in range(3) for batch in loader]


def staffed(**given: Any) -> tuple[dict[str, Any], list[str]]:
    notes: list[str] = []
    return Staffing(2, 3, say=notes.append).change(given), notes


@pytest.mark.parametrize("settings", [{"shuffle": True}, {"drop_last": True}, {"shuffle": True, "num_workers": 1}])
def test_samples_order_and_the_draws_of_the_training_stay(settings: dict[str, Any]) -> None:
    given = {"dataset": Pictures(), "batch_size": 8, **settings}
    changed, notes = staffed(**given)
    assert (changed["num_workers"], changed["prefetch_factor"]) == (2, 3) and not notes
    assert_same_epochs(walk(changed), walk(given))


class Counts(Pictures):
    calls = 0

    def __getitem__(self, index: Any) -> Any:
        self.calls += 1
        return torch.tensor(index)


class Lazily(Sampler[int]):
    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[int]:
        return (random.randrange(self.length) for _ in range(self.length))

    def __len__(self) -> int:
        return self.length


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"dataset": Counts()}, "changes"),
        ({"dataset": Pictures(), "sampler": Lazily(50)}, "Lazily, which may depend on when it is asked"),
        ({"dataset": Pictures(), "batch_size": 20}, "only 50 items"),
    ],
)
def test_who_would_notice_is_left_alone_and_it_is_said(given: dict[str, Any], reason: str) -> None:
    changed, notes = staffed(**given)
    assert changed == given
    assert len(notes) == 1 and reason in notes[0]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_how_workers_are_started_stays_as_it_is(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"dataset": Pictures(), "num_workers": 1, "multiprocessing_context": method}
    changed, notes = staffed(**given)
    assert changed["num_workers"] == 2 and changed["multiprocessing_context"] == method and not notes
    monkeypatch.setattr(torch.multiprocessing, "get_start_method", lambda: method)
    given = {"dataset": Pictures()}
    changed, notes = staffed(**given)
    assert changed == given
    assert len(notes) == 1 and f"workers would be started by {method}" in notes[0]


def test_looking_at_items_leaves_no_trace() -> None:
    dataset = Counts()
    seed()
    before = states()
    staffed(dataset=dataset)
    assert dataset.calls == 0 and states() == before


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


@pytest.mark.parametrize("given", [{"dataset": Stream()}, {}, {"dataset": Pictures(), "timeout": 3}])
def test_other_arguments_are_none_of_its_business(given: dict[str, Any]) -> None:
    assert staffed(**given) == (given, [])


def test_memory_that_gets_short_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    staff = Staffing(1, 2, say=notes.append)
    staff.change({"dataset": Pictures()})
    monkeypatch.setattr(staffing, "available_bytes", lambda: 1)
    assert staff.settled() and staff.settled()
    assert len(notes) == 1 and "only 1 B are left" in notes[0]


def test_no_more_workers_than_memory_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "own_bytes", lambda pids: 1 << 20)  # of a copy of all that pytest has loaded
    monkeypatch.setenv("HOTLAP_MEMORY", str(3 * staffing.WORKER_BYTES))
    notes: list[str] = []
    given = {"dataset": Pictures(), "batch_size": 4}
    changed = Staffing(6, 2, say=notes.append).change(given)
    assert 1 <= changed["num_workers"] <= 2
    assert len(notes) == 1 and "not 6" in notes[0] and "30.0 MiB may be used" in notes[0]
    # what these were promised is gone for the next loader
    assert Staffing(6, 2, say=notes.append).change(given).get("num_workers", 0) < changed["num_workers"]


def test_large_batches_on_their_way_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_MEMORY", "100MB")
    notes: list[str] = []
    given = {
        "dataset": Pictures(200, lambda number: torch.full((250_000,), number + random.random())),
        "batch_size": 50,
    }
    assert Staffing(2, 2, say=notes.append).change(given) == given
    assert len(notes) == 1 and "read as the script has it: a worker would take" in notes[0]


def test_pages_that_processes_share_count_once() -> None:
    held = torch.ones(40 << 18)  # 40 MiB that each copy of this process has, too
    alone = tree_bytes()
    loader = iter(DataLoader(Pictures(), num_workers=2, batch_size=2, persistent_workers=True))
    next(loader)
    assert tree_bytes() < alone + 2 * held.nbytes + (200 << 20)
    assert tree_bytes() > alone // 2
