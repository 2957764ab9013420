"""Loaders, loops and settings whose product the data levers are held to, and what a loop sees."""

import hashlib
import itertools
import os
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.utils._pytree import tree_map
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from hotlap import at_work
from tests.unit.data.pictures import MEAN, STD, Bytes, Crop, Normalize, ToTensor
from tests.unit.data.pipelines import Compose
from tests.unit.data.sets import Pictures, equal, seed, states

NUM_ITEMS = 24

# What happens in any process, one byte each: forked processes append to the same file, spawned ones have none.
_FILE = os.open(tempfile.gettempdir(), os.O_TMPFILE | os.O_RDWR | os.O_APPEND)


def happens(kind: bytes) -> None:
    os.write(_FILE, kind)


def drain() -> bytes:
    """What has happened since the last call."""
    told = os.pread(_FILE, os.fstat(_FILE).st_size, 0)
    os.ftruncate(_FILE, 0)
    return told


# Data sets


class Computed(Pictures):
    """The same items each time, and it is told when one is computed."""

    def __init__(self) -> None:
        super().__init__(NUM_ITEMS)

    def __getitem__(self, index: Any) -> Any:
        happens(b"i")
        return super().__getitem__(index)


class Darker:
    """The costly step in front of the random ones."""

    def __call__(self, picture: Any) -> Any:
        happens(b"h")
        return picture // 2


class Photographs(Bytes):
    def __init__(self) -> None:
        super().__init__(Compose([Darker(), Crop(), ToTensor(), Normalize(MEAN, STD)]))

    def __len__(self) -> int:
        return NUM_ITEMS


def rows() -> TensorDataset:
    return TensorDataset(torch.arange(3.0 * NUM_ITEMS).view(NUM_ITEMS, 3), torch.arange(NUM_ITEMS) % 7)


DATA: dict[str, Callable[[], Any]] = {"rows": rows, "computed": Computed, "photographs": Photographs}


# Samplers: arguments of a DataLoader over such a data set. 5 does not divide 24, 4 does: the order ends within the last
# batch, or when one more is asked for.


class Curriculum(Sampler[int]):
    """Keeps state of its own, and draws from a global generator at each index."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.given = 0

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        for _ in range(self.length):
            self.given += 1
            yield (self.given + random.randrange(3)) % self.length


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def _distributed(data: Any) -> dict[str, Any]:
    return {"sampler": DistributedSampler(data, num_replicas=2, rank=1, shuffle=True), "batch_size": 3}


SAMPLERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "sequential": lambda data: {"batch_size": 5},
    "shuffle": lambda data: {"batch_size": 5, "shuffle": True, "drop_last": True},
    "generator": lambda data: {"batch_size": 4, "shuffle": True, "generator": generator()},
    "sampler": lambda data: {"batch_size": 5, "sampler": Curriculum(NUM_ITEMS)},
    "subset": lambda data: {"batch_size": 4, "sampler": SubsetRandomSampler(range(3, NUM_ITEMS), generator())},
    "batch sampler": lambda data: {
        "batch_sampler": BatchSampler(RandomSampler(data, num_samples=33, replacement=True), 5, drop_last=False)
    },
    "weighted": lambda data: {"batch_size": 5, "sampler": WeightedRandomSampler([1.0, 3.0] * (NUM_ITEMS // 2), 22)},
    "distributed": _distributed,
}


# Loops. Each is handed what makes a loader, and gives the batches that the script sees.


Make = Callable[..., Any]
"""`make()` gives a loader, `make(name)` one with that sampler."""


def _epochs(loader: Any, num_epochs: int) -> Iterator[Any]:
    for epoch in range(num_epochs):
        if isinstance(loader.sampler, DistributedSampler):
            loader.sampler.set_epoch(epoch)
        yield epoch


def whole(make: Make) -> Iterator[Any]:
    loader = make()
    for _ in _epochs(loader, 3):
        yield from loader


def breaks_off(make: Make) -> Iterator[Any]:
    loader = make()
    for stop in _epochs(loader, 4):
        for number, batch in enumerate(loader):
            yield batch
            if number == 1 + stop:  # 1 2 3 4: the last batch among them
                break


def sliced(make: Make) -> Iterator[Any]:
    loader = make()
    for _ in _epochs(loader, 3):
        yield from itertools.islice(loader, 3)


def zipped(make: Make) -> Iterator[Any]:
    loader, other = make(), make("shuffle")
    for _ in _epochs(loader, 2):
        yield from zip(loader, other, strict=False)


def nested(make: Make) -> Iterator[Any]:
    loader = make()
    for _ in _epochs(loader, 2):
        for number, batch in enumerate(loader):
            yield batch
            if number == 1:
                yield from itertools.islice(loader, 4)


def raises(make: Make) -> Iterator[Any]:
    loader = make()
    for stop in _epochs(loader, 3):
        try:
            for number, batch in enumerate(loader):
                yield batch
                if number == stop + 1:
                    raise ArithmeticError("of the script's loop")
        except ArithmeticError:
            pass


def resumed(make: Make) -> Iterator[Any]:
    loader = make()
    first = iter(loader)
    yield from itertools.islice(first, 2)
    yield from loader
    yield from first
    yield from loader


LOOPS: dict[str, Callable[[Make], Iterator[Any]]] = {
    "whole epochs": whole,
    "break": breaks_off,
    "islice": sliced,
    "zip": zipped,
    "nested": nested,
    "exception": raises,
    "resumed": resumed,
}


# Workers

WORKERS: dict[str, dict[str, Any]] = {
    "0 workers": {},
    "1 worker": {"num_workers": 1},
    "2 workers": {"num_workers": 2},
    "1 persistent": {"num_workers": 1, "persistent_workers": True},
    "2 persistent": {"num_workers": 2, "persistent_workers": True},
    "1 spawned": {"num_workers": 1, "multiprocessing_context": "spawn"},
    "2 spawned, persistent": {"num_workers": 2, "persistent_workers": True, "multiprocessing_context": "spawn"},
}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a loop has seen, and what it cost."""

    steps: Sequence[tuple[Any, str]]
    """Each batch, and the states of all generators behind it."""
    told: bytes
    """What the data set told."""
    num_pools: int
    """Times that torch started workers."""
    notes: Sequence[str] = ()
    """Sentences for the report."""

    def count(self, kind: bytes) -> int:
        """Times that it was told: i an item, h a head, n a picture normalized by itself, r a row."""
        return self.told.count(kind)

    def same_as(self, other: "Seen") -> None:
        """Fail with the first difference."""
        for number, ((batch, after), (wanted, wanted_after)) in enumerate(zip(self.steps, other.steps, strict=False)):
            assert equal(batch, wanted), f"batch {number}: {batch} is not {wanted}"
            assert after == wanted_after, f"random states differ behind batch {number}"
        assert len(self.steps) == len(other.steps)


def _states(loaders: Sequence[Any]) -> str:
    """Digest of the global generators and of the loaders' own."""
    own = []
    for loader in loaders:
        for holder in (loader, loader.sampler):
            held = getattr(holder, "generator", None)
            own.append(None if held is None else held.get_state().numpy().tobytes())
    return hashlib.md5(repr((states(), own)).encode()).hexdigest()


@contextmanager
def pools_counted() -> Iterator[list[int]]:
    """How often torch starts workers meanwhile."""
    started: list[int] = []
    begin: Any = _MultiProcessingDataLoaderIter.__init__

    def counted(iterator: Any, loader: Any) -> None:
        started.append(loader.num_workers)
        begin(iterator, loader)

    with mock.patch.object(_MultiProcessingDataLoaderIter, "__init__", counted):
        yield started


def _own(value: Any) -> Any:
    """Not a tensor of a worker's: each holds a descriptor as long as it is kept."""
    return value.clone() if type(value) is torch.Tensor else value


def run(
    loop: Callable[[Make], Iterator[Any]],
    data: Callable[[], Any],
    arguments: Callable[[Any], dict[str, Any]],
    settings: dict[str, Any],
    wrap: Callable[[Any], Any] | None = None,
) -> Seen:
    """A script's loop over its loaders, by itself or with a function of ours around the data set of each."""
    at_work.forget()
    seed()
    loaders: list[Any] = []
    dataset = data()

    def make(sampler: str | None = None) -> Any:
        given = arguments if sampler is None else SAMPLERS[sampler]
        read = dataset if wrap is None else wrap(dataset)
        loaders.append(DataLoader(read, **{**given(dataset), **settings}))
        return loaders[-1]

    drain()
    with pools_counted() as pools, counting_rows(), warnings.catch_warnings():
        # Python 3.12 about any DataLoader's workers.
        warnings.filterwarnings("ignore", ".*use of fork", DeprecationWarning)
        steps = []
        for batch in loop(make):
            # What a training draws at each step.
            random.random(), np.random.rand(), torch.rand(1)
            steps.append((batch, _states(loaders)))
        steps.append((None, _states(loaders)))
    seen = Seen(
        steps=[(tree_map(_own, batch), after) for batch, after in steps],
        told=drain(),
        num_pools=len(pools),
        notes=at_work.notes(),
    )
    loaders.clear()
    return seen


@contextmanager
def counting_rows() -> Iterator[None]:
    """`TensorDataset` and `Normalize` tell of each item: what is served must be these very classes."""
    get: Any = TensorDataset.__getitem__
    normalize = Normalize.forward

    def told_get(dataset: Any, index: Any) -> Any:
        happens(b"r")
        return get(dataset, index)

    def told_normalize(step: Any, picture: Any) -> Any:
        happens(b"n")
        return normalize(step, picture)

    with (
        mock.patch.object(TensorDataset, "__getitem__", told_get),
        mock.patch.object(Normalize, "forward", told_normalize),
    ):
        yield


@cache
def plain(data: str, sampler: str, loop: str, workers: str) -> Seen:
    """The script by itself, once."""
    return run(LOOPS[loop], DATA[data], SAMPLERS[sampler], WORKERS[workers])
