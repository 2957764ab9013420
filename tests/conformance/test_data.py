"""Every data lever on every kind of loop: the script's own batches and random streams, and the lever at work on them.

What a case is compared with is the script by itself, run once for all levers. A lever that steps aside where `ASIDE`
does not say so fails its case, and so does one that is at work where it should not be.
"""

import inspect
import itertools
import multiprocessing
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset, get_worker_info, random_split
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from hotlap import at_work, levers
from hotlap.data import batched, cached, cached_prefix, resident
from hotlap.data.item_cache import memory
from hotlap.data.prefix_cache import cached_prefix as prefix
from hotlap.levers import Scope
from tests.conformance.loops import (
    DATA,
    LOOPS,
    SAMPLERS,
    WORKERS,
    Computed,
    Make,
    Photographs,
    Seen,
    plain,
    rows,
    run,
    whole,
)

LEVERS: dict[str, Callable[[Any], Any]] = {
    "batched-fetch": batched,
    "cached-dataset": cached,
    "cached-prefix": cached_prefix,
    "device-resident": resident,
}
"""What each lever writes around the data set of a loader."""

SERVED = {"batched-fetch": "rows", "cached-prefix": "photographs"}
"""The data set that a lever is for; of those that are not here: items that are computed."""


def kept(seen: Seen, own: Seen) -> bool:
    return seen.count(b"i") < own.count(b"i")


AT_WORK: Mapping[str, Callable[[Seen, Seen], bool]] = {
    "batched-fetch": lambda seen, own: seen.count(b"r") < own.count(b"r"),
    "cached-dataset": kept,
    "device-resident": kept,
    "cached-prefix": lambda seen, own: seen.count(b"h") < seen.count(b"n"),
}
"""What shows from outside that a lever did its work: (what was seen under it, what the script sees by itself)."""


_SPAWNED = "its workers are started by spawn"

ASIDE: Mapping[tuple[str, str], str] = {
    **{
        (lever, workers): _SPAWNED
        for lever in ("cached-dataset", "device-resident", "cached-prefix")
        for workers in ("1 spawned", "2 spawned, persistent")
    },
}
"""(lever, a property of the case) -> what it says when it steps aside. Everywhere else it is to be at work."""


def why_aside(lever: str, *properties: str) -> str | None:
    return next((ASIDE[lever, name] for name in properties if (lever, name) in ASIDE), None)


@pytest.fixture(autouse=True)
def anywhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What other tests hold is not this test's affair."""
    monkeypatch.setattr(prefix, "NUM_LOOKED_AT", 1)
    monkeypatch.setattr(memory.ALLOWANCE, "_held", {})
    monkeypatch.setattr(memory.ALLOWANCE, "_whole_bytes", 0)
    yield


def check(lever: str, sampler: str, loop: str, workers: str) -> None:
    """One case of the product."""
    data = SERVED.get(lever, "computed")
    seen = run(LOOPS[loop], DATA[data], SAMPLERS[sampler], WORKERS[workers], LEVERS[lever])
    judge(lever, seen, why_aside(lever, sampler, workers), lambda: plain(data, sampler, loop, workers))


def judge(lever: str, seen: Seen, aside: str | None, plainly: Callable[[], Seen]) -> None:
    """The same samples with the lever at work; or, where it steps aside, its sentence and nothing else."""
    if aside is not None:
        assert any(aside in note for note in seen.notes), f"{lever} said {seen.notes}"
        return
    own = plainly()
    assert AT_WORK[lever](seen, own), f"{lever} was not at work; it said {seen.notes}"
    seen.same_as(own)


def test_all_data_levers_are_here() -> None:
    written = {kind.name for kind in levers.ALL if kind.scope is Scope.LOADER and kind.function}
    assert set(LEVERS) == set(AT_WORK) == written


def pairs(*axes: Sequence[str]) -> list[tuple[str, ...]]:
    """Cases in which each value of the first axis meets each of the others at least once; always the same ones.

    The other axes meet among themselves without workers, where cases cost nothing.
    """
    rounds = max(map(len, axes[1:]))
    return [
        (first, *(axis[(turn + place * (1 + turn // len(axis))) % len(axis)] for axis in axes[1:]))
        for place, first in enumerate(axes[0])
        for turn in range(rounds)
    ]


FORKED = ("1 worker", "2 workers", "1 persistent", "2 persistent")
SPAWNED = ("1 spawned", "2 spawned, persistent")


@pytest.mark.parametrize("lever", LEVERS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_samples_and_streams_without_workers(lever: str, sampler: str) -> None:
    for loop in LOOPS:
        check(lever, sampler, loop, "0 workers")


# Without a GPU `device-resident` is `cached-dataset`.
ON_CPU = tuple(lever for lever in LEVERS if lever != "device-resident")


@pytest.mark.processes
@pytest.mark.parametrize("case", pairs(ON_CPU, tuple(SAMPLERS), tuple(LOOPS), FORKED), ids=", ".join)
def test_samples_and_streams_with_workers(case: tuple[str, ...]) -> None:
    check(*case)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("lever", LEVERS)
@pytest.mark.parametrize("workers", WORKERS)
def test_samples_and_streams_of_the_whole_product(lever: str, workers: str) -> None:
    for sampler, loop in itertools.product(SAMPLERS, LOOPS):
        check(lever, sampler, loop, workers)


# Arguments of a DataLoader


def seeds_worker(number: int) -> None:
    np.random.seed(torch.initial_seed() % 2**32)
    random.seed(number)


def changes_data(number: int) -> None:
    info: Any = get_worker_info()
    info.dataset.scale = number + 2.0


ARGUMENTS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, str]]] = {
    "no timeout": ({"timeout": 600}, {}),
    "worker_init_fn": ({"worker_init_fn": seeds_worker}, {}),
    "worker_init_fn changes the data set": (
        {"worker_init_fn": changes_data, "num_workers": 2},
        dict.fromkeys(("cached-dataset", "device-resident"), "worker_init_fn changes")
        | {"cached-prefix": "", "batched-fetch": ""},
    ),
    "multiprocessing_context": ({"multiprocessing_context": multiprocessing.get_context("fork")}, {}),
    "pin_memory_device": ({"pin_memory": True, "pin_memory_device": "cuda"}, {}),
    "in_order": ({"in_order": False}, {}),
    "prefetch_factor": ({"prefetch_factor": 4}, {}),
}  # fmt: skip
"""Name -> (settings, what levers say that step aside; an empty sentence: their data sets have no such attribute)."""


@pytest.mark.filterwarnings("ignore:.*pin_memory:UserWarning")
@pytest.mark.parametrize("lever", ON_CPU)
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_arguments_of_the_loader_keep_their_meaning(argument: str, lever: str) -> None:
    settings, asides = ARGUMENTS[argument]
    if argument == "in_order" and "in_order" not in inspect.signature(DataLoader).parameters:
        pytest.skip("this torch has no in_order")
    if asides.get(lever) == "":
        pytest.skip("its data set has no such attribute")
    sampler = "sampler"  # it draws at each index, so that it tells how far ahead it is asked
    given = {"num_workers": 1, **settings}
    data = SERVED.get(lever, "computed")
    aside = asides.get(lever)
    seen = run(LOOPS["break"], DATA[data], SAMPLERS[sampler], given, LEVERS[lever])
    judge(lever, seen, aside, lambda: with_arguments(argument, data, sampler))


@cache
def with_arguments(argument: str, data: str, sampler: str) -> Seen:
    return run(LOOPS["break"], DATA[data], SAMPLERS[sampler], {"num_workers": 1, **ARGUMENTS[argument][0]})


class Stuck(Computed):
    """A read that never ends, in a worker."""

    def __getitem__(self, index: Any) -> Any:
        if index == 12 and multiprocessing.current_process().daemon:
            time.sleep(60)
        return super().__getitem__(index)


class StuckPhotographs(Photographs):
    def __getitem__(self, index: Any) -> Any:
        if index == 12 and multiprocessing.current_process().daemon:
            time.sleep(60)
        return super().__getitem__(index)


@pytest.mark.parametrize("lever", [lever for lever in LEVERS if lever != "batched-fetch"])  # it reads memory alone
def test_a_read_that_is_stuck_ends_with_torchs_error(lever: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL", 0.1)  # torch waits for stuck workers
    data = StuckPhotographs if SERVED.get(lever) == "photographs" else Stuck
    begun_s = time.perf_counter()
    with pytest.raises(RuntimeError, match="DataLoader timed out after 1 seconds"):
        run(LOOPS["whole epochs"], data, SAMPLERS["sequential"], {"num_workers": 1, "timeout": 1}, LEVERS[lever])
    assert time.perf_counter() - begun_s < 50  # not what a read takes that is never given up


@pytest.mark.parametrize("settings", [{"timeout": 1}, {"prefetch_factor": 4}, {"persistent_workers": True}])
@pytest.mark.parametrize("lever", LEVERS)
def test_what_torch_refuses_without_workers_stays_refused(lever: str, settings: dict[str, Any]) -> None:
    with pytest.raises((ValueError, AssertionError), match=r"num_workers|timeout"):
        run(LOOPS["whole epochs"], DATA[SERVED.get(lever, "computed")], SAMPLERS["sequential"], settings, LEVERS[lever])


@pytest.mark.parametrize("lever", LEVERS)
def test_workers_that_share_no_memory(lever: str) -> None:
    """Started once, without the script by itself: what is not kept says so when its loader begins."""
    aside = why_aside(lever, "1 spawned")
    if aside is None:
        pytest.skip("served: among the slow ones")
    at_work.forget()
    loader = DataLoader(LEVERS[lever](DATA[SERVED.get(lever, "computed")]()), 4, **WORKERS["1 spawned"])
    with mock.patch.object(_MultiProcessingDataLoaderIter, "__init__", _starts_nothing):
        iter(loader)
    assert any(aside in note for note in at_work.notes()), at_work.notes()


def _starts_nothing(iterator: Any, loader: Any) -> None:
    iterator._shutdown = True


# What the lever `workers` promises of loaders whose items draw nothing, and whose workers do not stay. (Two loaders of
# one `zip` draw in another order, for an epoch's first samples are asked for as it begins.)
PROMISED = [name for name in SAMPLERS if name not in ("generator", "sampler")]


@pytest.mark.processes
@pytest.mark.parametrize(
    ("sampler", "loop"), list(zip(PROMISED, [name for name in LOOPS if name != "zip"], strict=True))
)
def test_plain_workers_give_the_same_samples_and_leave_the_same_streams(sampler: str, loop: str) -> None:
    seen = run(LOOPS[loop], Computed, SAMPLERS[sampler], {"num_workers": 2})
    assert seen.num_pools
    seen.same_as(plain("computed", sampler, loop, "0 workers"))


# Other data sets, and what else a script does


class Augmented(Computed):
    """Draws from all three global generators for each item."""

    def __getitem__(self, index: Any) -> Any:
        picture, label = super().__getitem__(index)
        return picture + random.random() + np.random.rand() + torch.rand(()), label


class Ragged(Computed):
    """Sequences of differing lengths, with a text and a None."""

    def __getitem__(self, index: Any) -> Any:
        super().__getitem__(index)
        return {"tokens": torch.arange(index % 5 + 1), "name": f"n{index}", "extra": None if index % 2 else [index]}


class Hidden(Computed):
    """What an item is depends on how many were made before it, by something that is no attribute of the data set."""

    def __init__(self, next_number: Callable[[], int]) -> None:
        super().__init__()
        self.numbers = [next_number]

    def __getitem__(self, index: Any) -> Any:
        picture, label = super().__getitem__(index)
        return picture + self.numbers[0](), label


class Slotted:
    """A generator that no `__dict__` shows."""

    __slots__ = ("draws",)

    def __init__(self) -> None:
        self.draws = random.Random(1)

    def __call__(self) -> int:
        return self.draws.randrange(9)


_SOURCE = os.open(__file__, os.O_RDONLY)


def reads_on() -> Callable[[], int]:
    """The next byte of an open file, whichever item is asked for."""
    os.lseek(_SOURCE, 1, os.SEEK_SET)
    return lambda: os.read(_SOURCE, 1)[0]


def counted() -> Callable[[], int]:
    made = 0

    def next_number() -> int:
        nonlocal made
        made += 1
        return made

    return next_number


class Labelled(Computed):
    """With a label for each item, in what the script may write to."""

    def __init__(self, labels: Any) -> None:
        super().__init__()
        self.num_items, self.labels = 40, labels

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(index)[0], self.labels[index]


class Named(Labelled):
    """Finds nothing under the number of an item in the first that has as many entries as there are items."""

    def __init__(self) -> None:
        self.places = {f"item {place}": place for place in range(40)}
        super().__init__([*range(40)])


def relabels(make: Make) -> Iterator[Any]:
    """Gives items new labels in the middle of an epoch, as a training on labels of its own does."""
    loader = make()
    for epoch in range(4):
        for number, batch in enumerate(loader):
            yield batch
            if epoch == 2 and number == 2:
                for place in range(0, 40, 3):
                    held = loader.dataset
                    getattr(held, "dataset", held).labels[place] = 100 + place


def makes_doubles(make: Make) -> Iterator[Any]:
    loader = make()
    yield from loader
    yield from loader
    torch.set_default_dtype(torch.float64)
    try:
        yield from loader
    finally:
        torch.set_default_dtype(torch.float32)


def padded(items: list[Any]) -> Any:
    tokens = torch.nn.utils.rnn.pad_sequence([item["tokens"] for item in items], batch_first=True)
    return {"tokens": tokens, "names": [item["name"] for item in items], "extra": [item["extra"] for item in items]}


def new_loader_each_epoch(make: Make) -> Iterator[Any]:
    for _ in range(3):
        yield from make()


def by_hand(items: list[Any]) -> Any:
    return {"items": tuple(items), "n": len(items)}


def at_random(items: list[Any]) -> Any:
    return random.random(), items


_SHUFFLED = {"batch_size": 5, "shuffle": True}
_KEEPS = {"cached-dataset": "", "device-resident": ""}
_DRAWS = dict.fromkeys(_KEEPS, "draws random numbers (from")
_DIFFERS = dict.fromkeys(_KEEPS, "came out different")
_COUNTS = dict.fromkeys(_KEEPS, "changes a variable around")
_GATHERS = {"batched-fetch": ""}

Other = tuple[Callable[[], Any], Callable[[Make], Iterator[Any]], Mapping[str, Any], Mapping[str, str]]

OTHERS: Mapping[str, Other] = {
    "augmented": (Augmented, whole, _SHUFFLED, _DRAWS),
    "ragged": (Ragged, whole, {**_SHUFFLED, "collate_fn": padded}, _KEEPS),
    "split": (lambda: random_split(rows(), [0.7, 0.3])[0], whole, _SHUFFLED, _GATHERS),
    "chain": (
        lambda: ConcatDataset([Subset(Computed(), range(10)), Subset(Computed(), range(5, 20))]), whole, _SHUFFLED,
        _KEEPS,
    ),
    "a new loader each epoch": (rows, new_loader_each_epoch, _SHUFFLED, _GATHERS),
    "collates by hand": (Computed, whole, {**_SHUFFLED, "collate_fn": by_hand}, _KEEPS),
    "collates at random": (Computed, whole, {**_SHUFFLED, "collate_fn": at_random}, _KEEPS),
    "no batches": (Computed, whole, {"batch_size": None, "shuffle": True}, _KEEPS),
    "reads an iterator": (lambda: Hidden(itertools.count().__next__), whole, _SHUFFLED, _DIFFERS),
    "reads a file on": (lambda: Hidden(reads_on()), whole, _SHUFFLED, _DIFFERS),
    "counts in a closure": (lambda: Hidden(counted()), whole, _SHUFFLED, _COUNTS),
    "draws from a slot": (lambda: Hidden(Slotted()), whole, _SHUFFLED, _DRAWS),
    "new labels, list": (lambda: Labelled([*range(40)]), relabels, _SHUFFLED, _KEEPS),
    "new labels, array": (lambda: Labelled(np.arange(40)), relabels, _SHUFFLED, _KEEPS),
    "new labels, dict": (lambda: Labelled(dict(enumerate(range(40)))), relabels, _SHUFFLED, _KEEPS),
    "new labels, names": (Named, relabels, _SHUFFLED, _KEEPS),
    "new labels, subset": (lambda: Subset(Labelled([*range(40)]), [*range(39, 2, -1)]), relabels, _SHUFFLED, _KEEPS),
    "default dtype": (Computed, makes_doubles, _SHUFFLED, _KEEPS),
}  # fmt: skip
"""Name -> (data set, loop, arguments, lever -> "" at work, or what it says)."""


@pytest.mark.filterwarnings("ignore:.*came out different:RuntimeWarning")
@pytest.mark.parametrize("name", OTHERS)
def test_other_scripts(name: str) -> None:
    data, loop, arguments, asides = OTHERS[name]
    own = run(loop, data, lambda _: dict(arguments), {})
    for lever, aside in asides.items():
        seen = run(loop, data, lambda _: dict(arguments), {}, LEVERS[lever])
        judge(lever, seen, aside or None, lambda: own)


BY_WORKERS = {
    "augmented": "draws random numbers",
}

WITH_WORKERS = (*BY_WORKERS, "ragged", "chain", "collates by hand", "collates at random", "no batches")


@pytest.mark.processes
@pytest.mark.parametrize("name", WITH_WORKERS)
def test_other_scripts_with_workers(name: str) -> None:
    """Where the cache cannot serve, the script's own workers go on at the batch where that is seen."""
    data, loop, arguments, _ = OTHERS[name]
    seen = run(loop, data, lambda _: dict(arguments), {"num_workers": 2}, cached)
    own = by_workers(name)
    if name in BY_WORKERS:
        assert any(BY_WORKERS[name] in note for note in seen.notes), seen.notes
    else:
        assert AT_WORK["cached-dataset"](seen, own), seen.notes
    seen.same_as(own)


@cache
def by_workers(name: str) -> Seen:
    data, loop, arguments, _ = OTHERS[name]
    return run(loop, data, lambda _: dict(arguments), {"num_workers": 2})
