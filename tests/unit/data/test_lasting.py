"""lasting(): the same processes, and what new ones would have given."""

import os
import random
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, get_worker_info

from hotlap.data import lasting
from hotlap.data.sending import sent
from hotlap.errors import UserError
from tests.unit.data.sets import Pictures, assert_same_epochs, epochs, seed, states

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only"),
]


@pytest.fixture(autouse=True)
def forks() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12, about any DataLoader's workers
        yield


class Process(Pictures):
    """Items say which process made them."""

    def __getitem__(self, index: Any) -> Any:
        return torch.tensor([int(index), os.getpid()])


def pids(loader: Any) -> set[int]:
    return {int(pid) for batch in loader for pid in batch[:, 1]}


def test_the_processes_of_the_first_epoch_serve_all() -> None:
    loader = DataLoader(lasting(Process()), batch_size=8, num_workers=2)
    first = pids(loader)
    assert len(first) == 2 and os.getpid() not in first
    assert pids(loader) == first == pids(loader)


def test_workers_that_grew_beyond_their_memory_are_not_kept() -> None:
    kept = lasting(Process(), memory_bytes=1000)
    loader = DataLoader(kept, batch_size=8, num_workers=1)
    first = pids(loader)
    assert not first & pids(loader)
    assert kept.note is not None and "of memory, and 1000 B may be used" in kept.note


def test_spawned_workers_stay_and_draw_what_new_ones_would() -> None:
    expected = epochs(Draws(), num_workers=1, num_epochs=2)
    kept = lasting(Draws())
    assert_same_epochs(epochs(kept, num_workers=1, num_epochs=2, multiprocessing_context="spawn"), expected)
    assert kept.note is None


class Sends(Pictures):
    """What a spawned worker gets of it depends on the moment."""

    def __init__(self, moment: Any) -> None:
        super().__init__()
        self.moment = moment

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "moment": self.moment()}


def never(text: str = "no") -> Any:
    raise TypeError(text)


def test_what_is_sent_to_a_worker_is_told_apart() -> None:
    loader = DataLoader(Scaled(), num_workers=1, multiprocessing_context="spawn")
    first = sent(loader, loader.dataset)
    assert first is not None and sent(loader, loader.dataset) == first
    loader.dataset.table[3] = -1.0  # type: ignore[attr-defined]
    assert sent(loader, loader.dataset) not in (first, None)
    assert sent(loader, Sends(os.getpid)) is not None


@pytest.mark.parametrize("moment", [random.random, never], ids=["draws", "cannot"])
def test_what_draws_when_it_is_sent_or_cannot_be_is_not_kept(moment: Any) -> None:
    seed()
    before = states()
    loader = DataLoader(Sends(moment), num_workers=1, multiprocessing_context="spawn")
    answers = {sent(loader, loader.dataset) for _ in range(2)}
    assert answers == {None}
    assert states() == before


class Draws(Pictures):
    """From all generators, and from what a worker is told."""

    def __getitem__(self, index: Any) -> Any:
        info = get_worker_info()
        assert info is None or info.dataset is self
        told = (info.id, info.seed % 1000) if info else (0, 0)
        return torch.tensor([index, random.random(), np.random.rand(), float(torch.rand(())), *told])


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.processes)])
@pytest.mark.parametrize("settings", [{}, {"drop_last": True}, {"batch_size": None}, {"prefetch_factor": 4}])
def test_samples_draws_and_states_are_those_of_new_workers(num_workers: int, settings: dict[str, Any]) -> None:
    if not num_workers and "prefetch_factor" in settings:
        return
    ours = epochs(lasting(Draws()), num_workers=num_workers, **settings)
    assert_same_epochs(ours, epochs(Draws(), num_workers=num_workers, **settings))


def test_an_epoch_that_is_cut_short_leaves_nothing_behind() -> None:
    def some(dataset: Any) -> list[Any]:
        seed()
        loader = DataLoader(dataset, batch_size=4, shuffle=True, num_workers=2)
        seen: list[Any] = []
        for stop in (2, 0, 99, 5, 99):
            for number, batch in enumerate(loader):
                seen.append(batch.tolist())
                if number == stop:
                    break
        return seen

    assert some(lasting(Draws())) == some(Draws())


def test_two_passes_at_once_do_not_share_processes() -> None:
    def both(dataset: Any) -> list[Any]:
        seed()
        loader = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=1)
        return [(a.tolist(), b.tolist()) for _ in range(2) for a, b in zip(loader, loader, strict=True)]

    assert both(lasting(Draws())) == both(Draws())


class Scaled(Process):
    def __init__(self) -> None:
        super().__init__()
        self.table = np.arange(50.0)

    def __getitem__(self, index: Any) -> Any:
        return torch.tensor([self.table[index] * self.scale, os.getpid()])


@pytest.mark.parametrize("what", ["attribute", "array"])
def test_what_the_script_changes_between_epochs_reaches_new_processes(what: str) -> None:
    dataset = Scaled()
    loader = DataLoader(lasting(dataset), batch_size=10, num_workers=1)
    before = pids(loader)
    assert pids(loader) == before
    if what == "attribute":
        dataset.scale = 3.0
    else:
        dataset.table *= 3.0
    values = [float(value) for batch in loader for value in batch[:, 0]]
    assert values == [3.0 * number for number in range(50)]
    note = loader.dataset.note  # type: ignore[attr-defined]
    assert note is not None and "changed" in note


class Counts(Pictures):
    """What it gives depends on how often it was asked since its process began."""

    calls = 0

    def __getitem__(self, index: Any) -> Any:
        self.calls += 1
        return torch.tensor([int(index), self.calls])


class CountsDeep(Pictures):
    def __init__(self) -> None:
        super().__init__()
        self.calls = [0] * 100

    def __getitem__(self, index: Any) -> Any:
        self.calls[0] += 1000
        return torch.tensor([int(index), self.calls[0]])


class OwnGenerator(Pictures):
    def __init__(self) -> None:
        super().__init__()
        self.draw = np.random.default_rng(0)

    def __getitem__(self, index: Any) -> Any:
        return torch.tensor(self.draw.random())


@pytest.mark.parametrize("kind", [Counts, CountsDeep, OwnGenerator])
def test_workers_that_change_their_data_set_are_started_anew(kind: type[Pictures]) -> None:
    kept = lasting(kind())
    assert_same_epochs(epochs(kept, num_workers=2), epochs(kind(), num_workers=2))
    assert kept.note is not None and "a worker changed" in kept.note


class OpensLate(Pictures):
    file: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.file = None

    def __getitem__(self, index: Any) -> Any:
        if self.file is None:
            self.file = open(os.devnull)  # noqa: SIM115 - as data sets do it
        return torch.tensor([int(index), os.getpid()])


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_file_that_a_worker_opens_late_is_no_change() -> None:
    loader = DataLoader(lasting(OpensLate()), batch_size=8, num_workers=2)
    assert pids(loader) == pids(loader)


def test_worker_init_fn_is_called_each_epoch() -> None:
    def init(number: int) -> None:
        random.seed(torch.initial_seed() + number)

    assert_same_epochs(
        epochs(lasting(Draws()), num_workers=2, worker_init_fn=init),
        epochs(Draws(), num_workers=2, worker_init_fn=init),
    )


class Fails(Pictures):
    def __getitem__(self, index: Any) -> Any:
        if index == 20:
            raise ValueError("item 20 is broken")
        return torch.tensor(int(index))


def test_an_error_comes_with_its_batch_and_the_next_epoch_works() -> None:
    loader = DataLoader(lasting(Fails()), batch_size=8, num_workers=2)
    for _ in range(2):
        seen: list[Any] = []
        with pytest.raises(ValueError, match="item 20 is broken"):
            seen.extend(batch.tolist() for batch in loader)
        assert list(DataLoader(lasting(Pictures(4)), num_workers=1))


def test_the_processes_end_with_the_loader() -> None:
    loader = DataLoader(lasting(Process()), batch_size=8, num_workers=2)
    workers = pids(loader)
    assert all(map(_lives, workers))
    del loader
    assert not any(map(_lives, workers))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_iterable_data_set_is_refused() -> None:
    with pytest.raises(UserError, match="no items to look up"):
        lasting(iter([1]))
