"""cached() under loaders with worker processes: the same streams, and no worker where none is needed."""

import gc
import os
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, Sampler, SubsetRandomSampler, get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from hotlap.data import cached
from hotlap.data.loader.patch import FillingWorkers, InPlaceOfWorkers
from tests.unit.data.sets import BUILDS, Pictures, assert_same_epochs, epochs, equal, seed, states

pytestmark = pytest.mark.processes


@pytest.fixture(autouse=True)
def forks() -> Iterator[None]:
    with warnings.catch_warnings():
        # "This process is multi-threaded, use of fork() may lead to deadlocks": Python 3.12 about any DataLoader.
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def fails(*_: Any) -> None:
    raise AssertionError("workers were started")


def run(dataset: Any, **settings: Any) -> list[tuple[Any, Any]]:
    return epochs(dataset, **{"num_workers": 2, **settings})


def seed_worker(number: int) -> None:
    np.random.seed(torch.initial_seed() % 2**32)
    random.seed(torch.initial_seed() + number)


class Eager(Sampler[int]):
    """Draws from the global generator as its iterator is made, and again for each index."""

    def __init__(self, num_items: int) -> None:
        self.num_items = num_items

    def __len__(self) -> int:
        return self.num_items

    def __iter__(self) -> Iterator[int]:
        random.random()
        return (random.randrange(50) for _ in range(self.num_items))


class EagerBatches(Sampler[list[int]]):
    """Draws as its iterator is made: torch makes two where workers are started, and uses the second."""

    def __len__(self) -> int:
        return 6

    def __iter__(self) -> Iterator[list[int]]:
        first = random.randrange(44)
        return iter([[first + number, first] for number in range(len(self))])


SETTINGS: dict[str, Callable[[], dict[str, Any]]] = {
    "shuffled": dict,
    "persistent": lambda: {"persistent_workers": True},
    "one worker": lambda: {"num_workers": 1, "prefetch_factor": 5},
    "drop last": lambda: {"drop_last": True},
    "eager sampler": lambda: {"shuffle": False, "sampler": Eager(33)},
    "batch sampler": lambda: {
        "batch_size": 1,
        "shuffle": False,
        "batch_sampler": BatchSampler(RandomSampler(range(50), replacement=True), 7, False),
    },
    "eager batch sampler": lambda: {"batch_size": 1, "shuffle": False, "batch_sampler": EagerBatches()},
    "own generator": lambda: {"generator": torch.Generator().manual_seed(5)},
    "subset": lambda: {"shuffle": False, "sampler": SubsetRandomSampler(range(0, 50, 3))},
    "collate": lambda: {"collate_fn": list},
    "init": lambda: {"worker_init_fn": seed_worker},
}


@pytest.mark.parametrize("name", BUILDS)
def test_items_of_each_kind_come_without_workers_once_they_have_computed_all(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, plain = cached(Pictures(50, BUILDS[name])), run(Pictures(50, BUILDS[name]))
    assert_same_epochs(run(kept, num_epochs=1), plain[:7])
    monkeypatch.setattr(_MultiProcessingDataLoaderIter, "__init__", fails)
    assert_same_epochs(run(kept), plain)
    assert kept.full and kept.note is None


@pytest.mark.parametrize("name", SETTINGS)
def test_any_loader_gives_the_same_batches_and_streams(name: str) -> None:
    kept = cached(Pictures())
    assert_same_epochs(run(kept, **SETTINGS[name]()), run(Pictures(), **SETTINGS[name]()))
    assert kept.num_cached > 0 and kept.note is None


@pytest.mark.parametrize("persistent", [False, True])
def test_a_loop_that_draws_and_breaks_off_sees_the_same_streams(persistent: bool) -> None:
    def loop(dataset: Any) -> list[Any]:
        seed()
        loader = DataLoader(dataset, 4, sampler=Eager(40), num_workers=2, persistent_workers=persistent)
        seen = []
        for _ in range(3):
            for number, batch in enumerate(loader):
                seen.append((batch, random.random(), torch.rand(()).item(), states()))
                if number == 4:
                    break
        return seen

    assert_same_epochs([(a[0], a[1:]) for a in loop(cached(Pictures()))], [(b[0], b[1:]) for b in loop(Pictures())])


@pytest.mark.parametrize("persistent", [False, True])
def test_an_eager_batch_sampler_gives_the_same_batches_where_all_is_kept(persistent: bool) -> None:
    kept, settings = cached(Pictures()), {"batch_size": 1, "shuffle": False, "persistent_workers": persistent}
    run(kept, num_epochs=1)
    assert kept.full
    plain = run(Pictures(), batch_sampler=EagerBatches(), **settings)
    assert_same_epochs(run(kept, batch_sampler=EagerBatches(), **settings), plain)


class Moves(Pictures):
    """Items that draw, and throw away what they drew, when they are told to by what no cache looks at."""

    def __getitem__(self, index: Any) -> Any:
        if os.environ.get("ITEMS_DRAW"):
            random.random(), np.random.rand(), torch.rand(())
        return super().__getitem__(index)


class Numbers(Eager):
    """Indices as numpy has them: nothing is gathered by such."""

    def __iter__(self) -> Iterator[Any]:
        return (np.int64(index) for index in range(self.num_items))


def test_items_that_cannot_be_gathered_leave_the_streams_of_the_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = cached(Moves())
    run(kept, num_epochs=1)
    assert kept.full
    monkeypatch.setenv("ITEMS_DRAW", "1")
    settings = {"shuffle": False, "sampler": Numbers(40), "num_epochs": 2}
    plain = run(Moves(), **settings)
    monkeypatch.setattr(_MultiProcessingDataLoaderIter, "__init__", fails)
    assert_same_epochs(run(kept, **settings), plain)


def test_two_loaders_at_once_see_the_same_streams() -> None:
    def loop(dataset: Any, other: Any) -> list[Any]:
        seed()
        first = DataLoader(dataset, 8, shuffle=True, num_workers=2)
        second = DataLoader(other, 8, shuffle=True, num_workers=1)
        return [((a, b), states()) for _ in range(2) for a, b in zip(first, second, strict=True)]

    kept = cached(Pictures())
    assert_same_epochs(loop(kept, kept), loop(Pictures(), Pictures()))


class Draws(Pictures):
    """From some item on, items draw random numbers."""

    first = 0

    def __getitem__(self, index: Any) -> Any:
        noise = random.random() + np.random.rand() + torch.rand(()).item() if index >= self.first else 0.0
        return torch.tensor(index + noise)


@pytest.mark.parametrize("first", [0, 30, 49])
@pytest.mark.parametrize("persistent", [False, True])
def test_items_that_draw_in_workers_are_those_of_the_workers(first: int, persistent: bool) -> None:
    def make() -> Draws:
        dataset = Draws()
        dataset.first = first
        return dataset

    kept = cached(make())
    settings: dict[str, Any] = {"persistent_workers": persistent, "shuffle": False, "batch_size": 6}
    assert_same_epochs(run(kept, **settings), run(make(), **settings))
    assert kept.note is not None and "draws random numbers" in kept.note


class TellsWorker(Pictures):
    def __getitem__(self, index: Any) -> Any:
        worker = get_worker_info()
        return torch.tensor([index, -1 if worker is None else worker.id])


def test_items_that_depend_on_their_worker_are_those_of_the_worker() -> None:
    kept = cached(TellsWorker())
    assert_same_epochs(run(kept), run(TellsWorker()))
    assert kept.note is not None and "came out different" in kept.note


class Counts(Pictures):
    calls = 0

    def __getitem__(self, index: Any) -> Any:
        self.calls += 1
        return torch.tensor([index, self.calls])


def test_a_data_set_that_counts_in_its_workers_is_left_to_them() -> None:
    kept = cached(Counts())
    assert_same_epochs(run(kept), run(Counts()))
    assert kept.calls == 0
    assert kept.note is not None and "(calls)" in kept.note


def shards(number: int) -> None:
    worker: Any = get_worker_info()
    worker.dataset.scale = 10.0 + number


def test_a_worker_init_fn_that_changes_the_data_set_is_left_to_the_workers() -> None:
    kept = cached(Pictures())
    assert_same_epochs(run(kept, worker_init_fn=shards), run(Pictures(), worker_init_fn=shards))
    assert kept.note is not None and "worker_init_fn changes" in kept.note


def noisy(items: list[Any]) -> Any:
    return [item[0] + random.random() for item in items]


def test_a_collate_function_that_draws_runs_in_the_workers() -> None:
    kept = cached(Pictures())
    assert_same_epochs(run(kept, collate_fn=noisy), run(Pictures(), collate_fn=noisy))
    assert kept.full and kept.note is None


class LateNoise:
    """A collate function that draws only when it meets item 40."""

    def __call__(self, items: list[Any]) -> Any:
        return [random.random() if item[1] == 40 else item[1] for item in items]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_collate_function_that_draws_later_on_runs_in_the_workers(num_workers: int) -> None:
    settings: dict[str, Any] = {"collate_fn": LateNoise(), "shuffle": False, "num_workers": num_workers}
    kept, plain = cached(Pictures(50, lambda i: (i, i))), Pictures(50, lambda i: (i, i))
    assert_same_epochs(run(kept, **settings), run(plain, **settings))
    assert kept.full and kept.note is None


class Fails(Pictures):
    def __getitem__(self, index: Any) -> Any:
        if index == 30:
            raise ValueError("item 30 is broken")
        return super().__getitem__(index)


def test_an_error_in_a_worker_comes_with_the_batch_it_belongs_to() -> None:
    def batches(dataset: Any) -> list[Any]:
        seed()
        seen, iterator = [], iter(DataLoader(dataset, 8, num_workers=2))
        with pytest.raises(ValueError, match="item 30 is broken"):
            for batch in iterator:
                seen.append((batch, states()))
        iterator._shutdown_workers()  # type: ignore[attr-defined] # as garbage it would wait ten seconds for them
        return seen

    assert_same_epochs(batches(cached(Fails())), batches(Fails()))


def test_what_the_script_changes_between_epochs_reaches_new_workers_and_no_persistent_ones() -> None:
    def loop(raw: Pictures, dataset: Any, *, persistent: bool) -> list[Any]:
        seed()
        loader = DataLoader(dataset, 8, shuffle=True, num_workers=2, persistent_workers=persistent)
        seen = []
        for epoch in range(3):
            raw.scale = float(epoch)
            for number, batch in enumerate(loader):
                seen.append((batch, states()))
                raw.scale = epoch + number / 10
        return seen

    for persistent in (False, True):
        raw, plain = Pictures(), Pictures()
        ours = loop(raw, cached(raw), persistent=persistent)
        assert_same_epochs(ours, loop(plain, plain, persistent=persistent))


def test_processes_end_with_the_epoch_and_with_the_iterator() -> None:
    kept = cached(Pictures())
    gc.collect()  # loaders of other tests
    before = set(psutil.Process().children())
    for _ in range(2):
        for _ in DataLoader(kept, 8, num_workers=2):
            break
        list(DataLoader(kept, 8, num_workers=2))
    assert set(psutil.Process().children()) <= before


def test_kept_items_are_computed_again_as_training_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVEL", "1")
    kept = cached(Pictures(50, lambda i: torch.tensor(i * float(os.environ["LEVEL"]))))
    loader = DataLoader(kept, 8, num_workers=2)
    list(loader)
    monkeypatch.setenv("LEVEL", "2")
    kept._hotlap_cache.rechecks.cost_s = 0.0
    with pytest.warns(RuntimeWarning, match="came out different"):
        for _ in range(2000):
            list(loader)
            if kept.note is not None:
                break
    assert equal(next(iter(loader)), torch.arange(8) * 2.0)


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_end_when_all_items_are_kept(persistent: bool) -> None:
    kept = cached(Pictures())
    loader = DataLoader(kept, 8, num_workers=2, persistent_workers=persistent)
    iterators = []
    for _ in range(3):
        iterator = iter(loader)
        list(iterator)
        iterators.append(type(iterator))
    assert iterators == [FillingWorkers, InPlaceOfWorkers, InPlaceOfWorkers]


class Shares(Pictures):
    """Persistent workers see what the script writes into its tensor, as curricula are told to them."""

    def __init__(self) -> None:
        super().__init__(24)
        self.level: torch.Tensor = torch.ones(1).share_memory_()  # type: ignore[no-untyped-call]

    def __getitem__(self, index: Any) -> Any:
        return torch.full((2,), float(index)) * self.level


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_persistent_workers_see_what_is_written_to_memory_that_they_share() -> None:
    def told(wrap: Callable[[Any], Any]) -> list[Any]:
        data, seen = Shares(), list[Any]()
        loader = DataLoader(wrap(data), batch_size=5, num_workers=1, persistent_workers=True)
        for epoch in range(4):
            data.level.fill_(1.0 + epoch // 2)
            seen += [batch.tolist() for batch in loader]
        return seen

    assert told(cached) == told(lambda data: data)
