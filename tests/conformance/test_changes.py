"""What items are made from is changed, between two epochs or in the middle of one: no lever goes on with what was.

From the next epoch on the batches are those of the plain loader, for everything that can change; and it was the lever
that handed them out before (`AT_WORK`), or it said why it does not.
"""

import importlib.util
import sqlite3
import types
import warnings
from array import array
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from hotlap.data import batched, cached, cached_prefix, resident
from hotlap.data.checks.inputs import Contents
from hotlap.data.checks.opened_files import OpenedFiles
from hotlap.data.checks.watch import Watch
from hotlap.data.item.codec import CannotKeep
from hotlap.data.item_cache import again
from tests.unit.data.gather.test_resident import Here
from tests.unit.data.pipelines import Compose, Noise
from tests.unit.data.sets import equal, seed

N = 24

# Of the tests' frameworks, which need not be there.
HAS_PANDAS = importlib.util.find_spec("pandas") is not None

settings: Any = types.ModuleType("settings_of_a_script")
LEVEL, FAR_LEVEL = 1.0, 1.0


class Scaled:
    """A transform with a setting of its own, and one of its class."""

    of_class = 1.0

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, item: Any) -> Any:
        return item * self.factor + self.of_class


SCALES = Scaled.__call__


def doubles(transform: Scaled, item: Any) -> Any:
    return 2 * SCALES(transform, item)


def far_from_getitem(index: int) -> float:
    return float(sum([FAR_LEVEL for _ in range(index)])) * float(far_from_getitem.__dict__["level"])


class Everything(Dataset[Any]):
    """Whatever an item can be made from. Each source can be changed on its own (`CHANGES`)."""

    def __init__(self, folder: Path, *, draws: bool, num_labels: int = 2_000) -> None:
        """`draws`: its transforms end with one that draws."""
        globals().update(LEVEL=1.0, FAR_LEVEL=1.0)
        settings.level, Scaled.of_class, far_from_getitem.__dict__["level"] = 1.0, 1.0, 1.0
        setattr(Scaled, "__call__", SCALES)  # noqa: B010 - a method
        self.labels = list(range(num_labels))
        self.pairs = [(f"item {number}", [number]) for number in range(N)]
        self.nested: Any = {"train": {"scale": {"x": 1.0}}, **{f"n{number}": number for number in range(50)}}
        self.array = np.arange(4.0 * 5_000).reshape(5_000, 4)
        self.columns = np.arange(4.0 * N).reshape(4, N).T
        self.objects = np.array([[number] for number in range(N)] + [None], dtype=object)
        self.counts = array("d", range(N))
        self.in_place = torch.arange(50_000.0)
        self.by_data = torch.arange(float(N))
        self.by_numpy = torch.arange(float(N))
        self.half = torch.arange(float(N), dtype=torch.bfloat16)
        with torch.inference_mode():
            self.inferred = torch.arange(float(N))
        self.view = torch.arange(2.0 * N)[::2]
        texts = [f"t{number}" for number in range(N)]
        # Imported here: collecting, which every worker does, takes 2.5 s of a core less in a new environment.
        pd: Any = importlib.import_module("pandas") if HAS_PANDAS else None
        self.frame = None if pd is None else pd.DataFrame({"number": np.arange(float(N)), "text": texts})
        self.set = {f"x{number}" for number in range(100)}
        self.files = [folder / f"{number}.txt" for number in range(3)]
        for number, file in enumerate(self.files):
            file.write_text(f"{number}.0")
        self.name_only = f"{folder}/{{}}.txt"
        self.p = 0.5
        self.epoch = 0
        around = [1.0] * 100
        self.closure: Callable[[int], float] = lambda index: around[index]
        self.around = around
        self.transform = Compose([Scaled(1.0), *([Noise()] if draws else [])])

    def __len__(self) -> int:
        return N

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def method(self, index: int) -> float:
        return far_from_getitem(index) + float(settings.level)

    def of_frame(self, index: int) -> list[float]:
        return [] if self.frame is None else [self.frame["number"].iloc[index], len(self.frame["text"].iloc[index])]

    def __getitem__(self, index: int) -> Any:
        numbers = [
            self.labels[index], self.pairs[index][1][0], self.nested["train"]["scale"]["x"], self.array[index].sum(),
            self.columns[index].sum(), self.objects[index][0], self.counts[index], self.in_place[index],
            self.by_data[index], self.by_numpy[index], self.half[index], self.inferred[index], self.view[index],
            *self.of_frame(index), len(self.set), self.p, self.epoch,
            float(Path(self.name_only.format(index % 3)).read_text()), self.closure(index), LEVEL, self.method(index),
        ]  # fmt: skip
        return self.transform(torch.tensor([float(number) for number in numbers])), self.labels[index]


def every_second_label(data: Any) -> None:
    for number in range(0, N, 2):
        data.labels[number] = 9  # as when pseudo-labels are written


def on_disk(data: Any) -> None:
    new = data.files[1].with_suffix(".new")
    new.write_text("5.0")  # as long as before
    new.replace(data.files[1])  # at once: workers may be reading


def swaps(data: Any) -> None:
    data.transform = Compose([Scaled(3.0), *data.transform.transforms[1:]])


def shuffles_rows(data: Any) -> None:
    data.array[:] = data.array[::-1].copy()  # the same numbers in another order


CHANGES: dict[str, Callable[[Any], object]] = {
    "entries of a list": every_second_label,
    "an entry of a list in a pair in a list": lambda data: data.pairs[3][1].__setitem__(0, 7),
    "a nested dict": lambda data: data.nested["train"]["scale"].update(x=2.0),
    "an array, its numbers in another order": shuffles_rows,
    "an array that is not contiguous": lambda data: data.columns.__setitem__((3, 2), -5.0),
    "an object in an array": lambda data: data.objects[3].__setitem__(0, 99),
    "an array.array": lambda data: data.counts.__setitem__(3, 99.0),
    "a tensor in place": lambda data: data.in_place[3].add_(5),
    "a tensor by .data": lambda data: data.by_data.data.mul_(2),
    "a tensor by its NumPy view": lambda data: data.by_numpy.numpy().__setitem__(3, 99.0),
    "a tensor of bfloat16 by .data": lambda data: data.half.data.mul_(2),
    "a tensor made in inference mode": lambda data: data.inferred.numpy().__setitem__(3, 99.0),
    "the base of a view": lambda data: data.view._base.numpy().__setitem__(6, 99.0),
    "a set": lambda data: data.set.add("one more"),
    "a file": on_disk,
    "an attribute": lambda data: setattr(data, "p", 0.9),
    "set_epoch": lambda data: data.set_epoch(3),
    "a transform that is swapped": swaps,
    "an attribute of a transform": lambda data: setattr(data.transform.transforms[0], "factor", 4.0),
    "an attribute of its class": lambda data: setattr(Scaled, "of_class", 4.0),
    "a method of its class": lambda data: setattr(Scaled, "__call__", doubles),
    "a closure": lambda data: data.around.__setitem__(3, 9.0),
    "a global": lambda data: globals().update(LEVEL=2.0),
    "a global of a function that a method calls": lambda data: globals().update(FAR_LEVEL=2.0),
    "an attribute of such a function": lambda data: far_from_getitem.__dict__.update(level=2.0),
    "a name of a module of the script": lambda data: setattr(settings, "level", 2.0),
}

if HAS_PANDAS:
    CHANGES["a number in a frame"] = lambda data: data.frame.loc.__setitem__((3, "number"), 99.0)
    CHANGES["a text in a frame"] = lambda data: data.frame.loc.__setitem__((3, "text"), "longer")

# Where the same code compares them as in the other tests: with workers, in the process that these are copies of.
IN_FEW = (
    "entries of a list", "an array, its numbers in another order", "a tensor by .data", "a file",
    "an attribute of a transform", "a global",
)  # fmt: skip

Wrap = Callable[[Any], Any]


def there(dataset: Any) -> Any:
    """`resident`, on this very device."""
    ours: Any = resident(dataset)
    ours.__dict__["_hotlap_devices"] = Here()
    return ours


LEVERS: dict[str, Wrap] = {"cached": cached, "resident": there, "cached_prefix": cached_prefix}

AT_WORK = {
    ("cached", 0): True,
    ("resident", 0): True,
    ("cached_prefix", 0): True,
    ("cached", 2): True,
    ("cached_prefix", 2): True,
}
"""(lever, workers): whether it hands out the batches of these data sets before each change, and again behind it."""


def is_at_work(loader: Any) -> bool:
    """True if all items are kept."""
    return bool(loader.dataset.num_cached == N)


class Loop:
    """Epochs over a loader, with changes."""

    def __init__(self, dataset: Any, wrap: Wrap | None, **options: Any) -> None:
        seed()
        self.dataset = dataset
        self.loader: Any = DataLoader(dataset if wrap is None else wrap(dataset), 8, shuffle=True, **options)

    def epoch(self, change: Callable[[Any], object] | None = None) -> list[Any]:
        """All batches; `change` is made after the first."""
        batches = []
        for number, (numbers, labels) in enumerate(self.loader):
            batches.append((numbers.to("cpu"), labels.to("cpu")))
            if change is not None and number == 0:
                change(self.dataset)
        return batches


def told(loop: Loop, change: Callable[[Any], object], *, between: bool) -> list[Any]:
    """The next epochs' batches after a change."""
    if between:
        change(loop.dataset)
    else:
        loop.epoch(change)
    return [loop.epoch(), loop.epoch()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(autouse=True)
def small_items_are_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(again, "MAX_RESTARTS", 1_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12, about any DataLoader's workers
        yield


@cache
def of_the_plain_loader(name: str, folder: Path, *, draws: bool, between: bool) -> list[Any]:
    plain = Loop(Everything(folder, draws=draws), None)
    return [plain.epoch(), plain.epoch(), told(plain, CHANGES[name], between=between)]


@pytest.mark.parametrize(
    ("between", "computed_again"),
    [(True, False), (False, False), (False, True)],
    ids=["between epochs", "in an epoch", "in an epoch, and met there"],
)
@pytest.mark.parametrize("lever", [lever for lever, num_workers in AT_WORK if num_workers == 0])
def test_every_change_is_seen_at_the_next_epoch(
    lever: str, between: bool, computed_again: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whether a kept item that was changed is computed again within the epoch is up to the time of day.
    monkeypatch.setattr(again, "RECHECK_EVERY", 1 if computed_again else 10**6)
    monkeypatch.setattr(again, "SHARE", 0)
    draws = lever == "cached_prefix"
    for name in CHANGES if between or lever == "cached" else IN_FEW:
        change = CHANGES[name]
        expected = of_the_plain_loader(name, folder, draws=draws, between=between)
        ours = Loop(Everything(folder, draws=draws), LEVERS[lever])
        seen: list[Any] = [ours.epoch(), ours.epoch()]
        assert is_at_work(ours.loader) and ours.loader.dataset.note is None, (name, ours.loader.dataset.note)
        seen.append(told(ours, change, between=between))
        assert equal(seen, expected), f"{name} went unseen"
        assert not equal(seen[1], seen[2][0])
        assert is_at_work(ours.loader) is AT_WORK[lever, 0], (name, ours.loader.dataset.note)
        assert "changed" in str(ours.loader.dataset.note)


@cache
def of_plain_workers(folder: Path, *, draws: bool) -> list[Any]:
    return [*in_workers(Everything(folder, draws=draws), None)]


def in_workers(data: Any, wrap: Wrap | None) -> Iterator[tuple[str, Any]]:
    """(change, the batches of the epoch behind it), the last one made in the middle of an epoch."""
    loop = Loop(data, wrap, num_workers=2)
    loop.epoch()
    for name in IN_FEW:
        assert wrap is None or is_at_work(loop.loader), name
        CHANGES[name](data)
        yield name, loop.epoch()
    loop.epoch(CHANGES["a set"])
    assert wrap is None or is_at_work(loop.loader)
    yield "a set, in an epoch", loop.epoch()


@pytest.mark.processes
@pytest.mark.parametrize("lever", [lever for lever, num_workers in AT_WORK if num_workers == 2])
def test_every_change_is_seen_by_workers_of_the_next_epoch(lever: str, folder: Path) -> None:
    draws = lever != "cached"
    expected = of_plain_workers(folder, draws=draws)
    seen = in_workers(Everything(folder, draws=draws), LEVERS[lever])
    for (name, batches), (_, plain) in zip(seen, expected, strict=True):
        assert equal(batches, plain), f"{name} went unseen"


@pytest.mark.parametrize("change", [every_second_label, on_disk])
@pytest.mark.parametrize("epoch", [0, 1], ids=["while they fill", "once all is kept"])
def test_workers_that_live_on_see_what_those_of_the_plain_loader_see(
    change: Callable[[Any], object], epoch: int, folder: Path
) -> None:
    def run(wrap: Wrap | None) -> Any:
        loop = Loop(Everything(folder, draws=False), wrap, num_workers=2, persistent_workers=True)
        seen = []
        for number in range(4):
            in_an_epoch = change is every_second_label and number == epoch
            seen.append(loop.epoch(change if in_an_epoch else None))
            if number == epoch and not in_an_epoch:
                change(loop.dataset)  # in an epoch workers may read the file before or after
        assert wrap is None or is_at_work(loop.loader) is (change is every_second_label)
        return seen

    assert equal(run(cached), run(None))


def test_one_of_a_million_labels_is_seen(folder: Path) -> None:
    ours = Loop(Everything(folder, draws=False, num_labels=1_000_000), cached)
    before = [ours.epoch(), ours.epoch()][1]
    assert is_at_work(ours.loader) and ours.loader.dataset.note is None, ours.loader.dataset.note
    ours.dataset.labels[3] = 9
    after = ours.epoch()
    assert sorted(torch.cat([labels for _, labels in before]).tolist()) == [*range(N)]
    assert sorted(torch.cat([labels for _, labels in after]).tolist()) == sorted([*range(3), *range(4, N), 9])


class Table(Dataset[Any]):
    """Items in an object of C, which nobody can look into."""

    def __init__(self, *, draws: bool) -> None:
        self.transform = Compose([Scaled(1.0), *([Noise()] if draws else [])])
        self.table = sqlite3.connect(":memory:")
        self.table.execute("create table t (x)")
        self.table.executemany("insert into t values (?)", [(number,) for number in range(N)])

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> Any:
        x = self.table.execute("select x from t where rowid = ?", (index + 1,)).fetchone()[0]
        return self.transform(torch.tensor([float(x)])), x


@pytest.mark.parametrize("lever", ["cached", "resident", "cached_prefix"])
def test_what_cannot_be_looked_into_is_refused_with_a_sentence(lever: str) -> None:
    data = Table(draws=lever == "cached_prefix")
    ours = Loop(data, LEVERS[lever])
    ours.epoch()
    data.table.execute("update t set x = 99")
    assert {int(label) for _, labels in ours.epoch() for label in labels} == {99}
    assert ours.loader.dataset.num_cached == 0
    assert "cannot pickle 'sqlite3.Connection' object" in str(ours.loader.dataset.note)


def test_what_takes_longer_to_look_at_than_it_saves_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotlap.data.checks.inputs.LEAST_S", 0.0)
    rows = torch.zeros(N, 1_000_000)
    ours = Loop([(row[:1], number) for number, row in enumerate(rows)] + [(rows, N)], cached)
    ours.loader = DataLoader(ours.loader.dataset, 8, sampler=range(N))
    assert len(ours.epoch()) == 3
    assert ours.loader.dataset.num_cached == 0
    assert "that its items take" in str(ours.loader.dataset.note)


def test_what_looking_takes_is_counted_and_is_the_same_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(torch.zeros(3), number) for number in range(2_000)]
    monkeypatch.setattr("hotlap.data.checks.inputs.LEAST_S", 0.0)
    with pytest.raises(CannotKeep, match=r"takes \S+ s, more than 100% of the 0.002 s"):
        Contents(pairs, Watch(pairs), OpenedFiles(), item_s=1e-6, num_items=len(pairs))
    contents = Contents(pairs, Watch(pairs), OpenedFiles(), item_s=1e-4, num_items=len(pairs))
    assert contents.changed(len(pairs)) is None


GATHERED: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "a tensor by .data": (
        lambda: TensorDataset(torch.arange(float(N)), torch.arange(N)),
        lambda data: data.tensors[0].data.mul_(2),
    ),
    "another tensor": (
        lambda: TensorDataset(torch.arange(float(N)), torch.arange(N)),
        lambda data: setattr(data, "tensors", (torch.ones(N), torch.arange(N))),
    ),
}


@pytest.mark.parametrize("name", GATHERED)
def test_batches_that_are_gathered_see_every_change_at_once(name: str) -> None:
    make, change = GATHERED[name]

    def run(wrap: Wrap | None) -> Any:
        loop = Loop(make(), wrap)
        return [loop.epoch(), loop.epoch(change), told(loop, change, between=True)]

    assert equal(run(batched), run(None))
