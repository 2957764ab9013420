"""Every data lever on every kind of loop: the same batches and the same random streams, or the script's own way."""

import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)

from hotlap import levers
from hotlap.levers import Numerics, Patch, Scope
from hotlap.levers.late_transform import LateTransform
from tests.unit.data.pictures import usual
from tests.unit.data.pipelines import Compose, Flip, Noise, Slow
from tests.unit.data.sets import Pictures, assert_same_epochs, seed, states

KINDS = [kind for kind in levers.ALL if kind.scope is Scope.LOADER and kind.numerics is Numerics.EXACT]
Seen = list[tuple[Any, Any]]


class Augmented(Pictures):
    """Draws from all three global generators for each item."""

    def __getitem__(self, index: Any) -> Any:
        picture, label = super().__getitem__(index)
        return picture + random.random() + np.random.rand() + torch.rand(()), label


class Ragged(Pictures):
    """Sequences of differing lengths, with a text and a None."""

    def __getitem__(self, index: Any) -> Any:
        return {"tokens": torch.arange(index % 5 + 1), "name": f"n{index}", "extra": None if index % 2 else [index]}


class Pipeline(Pictures):
    """A costly transform, then random ones."""

    def __init__(self) -> None:
        super().__init__()
        self.transform = Compose([Slow(), Noise(), Flip()])

    def __getitem__(self, index: Any) -> Any:
        picture, label = super().__getitem__(index)
        return self.transform(picture), label


class Stream(IterableDataset[Any]):
    """Items without numbers; with workers each gives all of them, as it is written."""

    def __iter__(self) -> Iterator[Any]:
        for number in range(61):
            yield torch.full((2,), float(number)), number


def table() -> TensorDataset:
    return TensorDataset(torch.arange(150.0).view(50, 3), torch.arange(50) % 7)


DATA: dict[str, Callable[[], Any]] = {
    "computed": Pictures,
    "augmented": Augmented,
    "pipeline": Pipeline,
    "photographs": usual,
    "table": table,
    "split": lambda: random_split(table(), [0.7, 0.3])[0],
    "chain": lambda: ConcatDataset([Subset(Pictures(), range(20)), Subset(Pictures(), range(5, 40))]),
}


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


def walk(data: Any, *, num_epochs: int = 3, **settings: Any) -> Seen:
    loader = DataLoader(data, **{"batch_size": 8, **settings})
    return [(batch, states()) for _ in range(num_epochs) for batch in loader]


def breaks_off(data: Any, **settings: Any) -> Seen:
    loader = DataLoader(data, 8, shuffle=True, **settings)
    seen = []
    for _ in range(4):
        for number, batch in enumerate(loader):
            seen.append((batch, states()))
            if number == 2:
                break
    return seen


def two_loaders(data: Any, **settings: Any) -> Seen:
    train = DataLoader(data, 8, shuffle=True, **settings)
    valid = DataLoader(data, 5, **settings)
    return [((a, b), states()) for _ in range(2) for a, b in zip(train, valid, strict=False)]


def new_loader_each_epoch(data: Any, **settings: Any) -> Seen:
    return [step for _ in range(3) for step in walk(data, num_epochs=1, shuffle=True, **settings)]


def draws_between_batches(data: Any, **settings: Any) -> Seen:
    loader = DataLoader(data, 8, shuffle=True, **settings)
    seen = []
    for _ in range(3):
        torch.rand(2)
        for batch in loader:
            noise = (random.random(), float(np.random.rand()), torch.rand(()).item())
            seen.append((batch, (noise, states())))
    return seen


def distributed(data: Any, **settings: Any) -> Seen:
    sampler: Any = DistributedSampler(data, num_replicas=2, rank=1, shuffle=True)
    loader = DataLoader(data, 4, sampler=sampler, **settings)
    seen = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        seen += [(batch, states()) for batch in loader]
    return seen


def weighted(data: Any, **settings: Any) -> Seen:
    return walk(data, sampler=WeightedRandomSampler([1.0, 3.0] * (len(data) // 2), 30), **settings)


def own_generator(data: Any, **settings: Any) -> Seen:
    generator = torch.Generator().manual_seed(3)
    seen = walk(data, shuffle=True, generator=generator, **settings)
    return [(batch, (after, generator.get_state().tolist())) for batch, after in seen]


def batch_sampler(data: Any, **settings: Any) -> Seen:
    batches = BatchSampler(RandomSampler(data, replacement=True, num_samples=33), 6, drop_last=False)
    return walk(data, batch_size=1, batch_sampler=batches, **settings)


def seeds_workers(number: int) -> None:
    np.random.seed(torch.initial_seed() % 2**32)
    random.seed(number)


def worker_init(data: Any, **settings: Any) -> Seen:
    return walk(data, shuffle=True, worker_init_fn=seeds_workers, **settings)


def collates_by_hand(data: Any, **settings: Any) -> Seen:
    return walk(data, shuffle=True, collate_fn=lambda items: {"items": tuple(items), "n": len(items)}, **settings)


def collates_at_random(data: Any, **settings: Any) -> Seen:
    return walk(data, shuffle=True, collate_fn=lambda items: (random.random(), items), **settings)


LOOPS: dict[str, Callable[..., Seen]] = {
    "in order": walk,
    "shuffled": lambda data, **settings: walk(data, shuffle=True, drop_last=True, **settings),
    "breaks off": breaks_off,
    "two loaders": two_loaders,
    "a new loader each epoch": new_loader_each_epoch,
    "draws between batches": draws_between_batches,
    "set_epoch": distributed,
    "weighted": weighted,
    "a generator of its own": own_generator,
    "batch sampler": batch_sampler,
    "a sampler with state": lambda data, **settings: walk(data, sampler=Curriculum(len(data)), **settings),
    "worker_init_fn": worker_init,
    "collates by hand": collates_by_hand,
    "collates at random": collates_at_random,
    "no batches": lambda data, **settings: walk(data, batch_size=None, shuffle=True, **settings),
}


def under(kind: type[levers.Lever] | None, loop: Callable[..., Seen], data: Callable[[], Any], **settings: Any) -> Seen:
    patch = Patch()
    if kind is not None:
        kind().install(patch)
    seed()
    try:
        return loop(data(), **settings)
    finally:
        patch.undo()


@pytest.fixture(autouse=True)
def forks() -> Iterator[None]:
    with warnings.catch_warnings():
        # Python 3.12 about any DataLoader's workers; hotlap about items that differ, which is what it should do.
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("loop", LOOPS)
def test_the_streams_are_those_of_the_script(kind: type[levers.Lever], name: str, loop: str) -> None:
    assert_same_epochs(under(kind, LOOPS[loop], DATA[name]), under(None, LOOPS[loop], DATA[name]))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((kind, name) for kind in KINDS for name in ("computed", "augmented", "pipeline", "table")),
        (LateTransform, "photographs"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
@pytest.mark.parametrize("loop", LOOPS)
def test_the_streams_are_those_of_the_script_with_workers(kind: type[levers.Lever], name: str, loop: str) -> None:
    # Each epoch of the script as written starts processes; once with workers that are kept is enough for the others.
    settings: dict[str, Any] = {"num_workers": 2, "persistent_workers": loop in ("in order", "breaks off", "set_epoch")}
    assert_same_epochs(
        under(kind, LOOPS[loop], DATA[name], **settings), under(None, LOOPS[loop], DATA[name], **settings)
    )


def padded(items: list[Any]) -> Any:
    tokens = torch.nn.utils.rnn.pad_sequence([item["tokens"] for item in items], batch_first=True)
    return {"tokens": tokens, "names": [item["name"] for item in items], "extra": [item["extra"] for item in items]}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_padding_texts_and_none_come_through(kind: type[levers.Lever], num_workers: int) -> None:
    settings: dict[str, Any] = {"shuffle": True, "collate_fn": padded, "num_workers": num_workers}
    assert_same_epochs(under(kind, walk, Ragged, **settings), under(None, walk, Ragged, **settings))


def breaks_off_unshuffled(data: Any, **settings: Any) -> Seen:
    loader = DataLoader(data, 4, **settings)
    seen = []
    for stop in (2, 6, 99):
        for number, batch in enumerate(loader):
            seen.append((batch, states()))
            torch.rand(1)
            if number == stop:
                break
    return seen


def both_at_once(data: Any, **settings: Any) -> Seen:
    loader = DataLoader(data, 4, **settings)
    return [((a, b), states()) for a, b in zip(loader, loader, strict=True)]


STREAMS: dict[str, Callable[..., Seen]] = {
    "in order": walk,
    "breaks off": breaks_off_unshuffled,
    "two passes at once": both_at_once,
    "one by one": lambda data, **settings: walk(data, batch_size=None, **settings),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("loop", STREAMS)
@pytest.mark.parametrize("num_workers", [0, 1])
def test_streams_without_numbers_come_as_they_are(kind: type[levers.Lever], loop: str, num_workers: int) -> None:
    assert_same_epochs(
        under(kind, STREAMS[loop], Stream, num_workers=num_workers),
        under(None, STREAMS[loop], Stream, num_workers=num_workers),
    )
