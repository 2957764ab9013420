"""A packed data set: the very same items, or a clear sentence; never half of it, and never a changed one."""

import fcntl
import json
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler, get_worker_info

from hotlap.data import cached, pack_folder, pack_table, pack_writing
from hotlap.data.pack_estimate import estimate
from hotlap.data.pack_reading import packed
from hotlap.data.pack_values import encode
from hotlap.data.pack_writing import pack
from hotlap.errors import RecordError, ScriptFailed, UserError
from tests.unit.data.sets import BUILDS, Pictures, assert_same_epochs, epochs, equal, states

pyarrow = pytest.importorskip("pyarrow", reason="packed data sets need pyarrow: pip install 'hotlap[pack]'")

KINDS = [name for name in BUILDS if name != "named"]


def photo(number: int) -> Any:
    """A picture; each third of another size."""
    side = 4 + number % 3
    return Image.fromarray(np.random.default_rng(number).integers(0, 256, (side, 5, 3), dtype=np.uint8)), number


def anything(number: int) -> Any:
    """An item that is built otherwise than its neighbour."""
    odd: list[Any] = [
        {"image": torch.arange(number), "label": None},
        {"image": torch.ones(3), "label": 2**70},
        {"label": 1, "image": torch.ones(3)},
        (torch.ones(3), "text"),
        [number] * (number * 3),
        "just text",
        None,
    ]
    return odd[number % len(odd)]


def same_items(dataset: Any, folder: Path) -> bool:
    found = packed(folder)
    return len(found) == len(dataset) and all(encode(found[i]) == encode(dataset[i]) for i in range(len(dataset)))


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "packed"


@pytest.mark.parametrize("name", KINDS)
def test_batches_and_random_states_are_those_of_the_data_set(name: str, to: Path) -> None:
    dataset = Pictures(20, BUILDS[name])
    packing = pack(dataset, to)
    assert (packing.num_items, packing.num_verified, packing.num_others) == (20, 20, 0)
    assert all(equal(packed(to)[i], dataset[i]) for i in range(20))
    assert_same_epochs(epochs(packed(to), num_epochs=2), epochs(dataset, num_epochs=2))


def test_worker_processes_read_it_too(to: Path) -> None:
    dataset = Pictures(30, BUILDS["dict"])
    pack(dataset, to)
    assert_same_epochs(epochs(packed(to), num_workers=2), epochs(dataset, num_workers=2))


def test_any_sampler_does(to: Path) -> None:
    pack(Pictures(30, BUILDS["pair"]), to)
    torch.manual_seed(1)
    sampler = WeightedRandomSampler([1.0] * 30, 64, replacement=True)
    batches = list(DataLoader(packed(to), batch_size=8, sampler=sampler))
    assert len(batches) == 8
    for pictures, labels in batches:
        assert torch.equal(pictures[:, 0, 0, 0], labels.float())


def test_pictures_of_all_sizes_come_back_pixel_for_pixel(to: Path) -> None:
    dataset = Pictures(20, photo)
    assert pack(dataset, to).num_others == 0
    for number in range(20):
        found, label = packed(to)[number]
        wanted = photo(number)[0]
        assert (found.mode, found.size, found.tobytes(), label) == ("RGB", wanted.size, wanted.tobytes(), number)


def test_items_that_are_built_differently_come_back_too(to: Path) -> None:
    dataset = Pictures(40, anything)
    pack(dataset, to)
    assert same_items(dataset, to)


def test_an_item_that_differs_from_those_that_were_looked_at_is_kept_as_bytes(to: Path) -> None:
    # The columns are chosen by 32 items, evenly spaced; the second is not one of them.
    dataset = Pictures(
        500, lambda i: (torch.full((3,), i), "second", None) if i == 1 else (torch.full((3,), i), i, None)
    )
    assert pack(dataset, to).num_others == 1
    assert same_items(dataset, to)


@pytest.mark.parametrize("num_rows", [1, 7])
def test_batches_of_rows_of_any_size_give_the_same(num_rows: int, to: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_table, "_BATCH_ROWS", num_rows)
    dataset = Pictures(20, BUILDS["texts"])
    pack(dataset, to)
    assert same_items(dataset, to)


def test_what_was_packed_can_be_cached(to: Path) -> None:
    dataset = Pictures(20, BUILDS["pair"])
    pack(dataset, to)
    kept = cached(packed(to))
    assert_same_epochs(epochs(kept), epochs(dataset))
    assert kept.full, kept.note


def test_an_item_is_new_memory_each_time(to: Path) -> None:
    pack(Pictures(5, lambda i: (torch.zeros(3), np.zeros(3), {"x": [i]})), to)
    dataset = packed(to)
    tensor, array, inner = dataset[2]
    tensor += 1
    array += 1
    inner["x"].append(5)
    assert encode(dataset[2]) == encode((torch.zeros(3), np.zeros(3), {"x": [2]}))


def test_it_is_indexed_as_a_sequence_is(to: Path) -> None:
    pack(Pictures(5, BUILDS["label"]), to)
    dataset = packed(to)
    assert dataset[-1] == dataset[np.int64(4)] == dataset[torch.tensor(4)] == 4
    assert list(dataset) == [0, 1, 2, 3, 4]
    for index in (5, -6):
        with pytest.raises(IndexError):
            dataset[index]


def test_a_copy_opens_the_folder_again(to: Path) -> None:
    pack(Pictures(5, BUILDS["pair"]), to)
    assert equal(pickle.loads(pickle.dumps(packed(to)))[3], packed(to)[3])


def test_the_table_is_one_that_others_can_read(to: Path) -> None:
    pack(Pictures(3, lambda i: {"x": torch.full((2, 2), i + 0.5), "label": i, "name": f"n{i}"}), to)
    with pyarrow.ipc.open_stream(pyarrow.memory_map(str(to / pack_folder.TABLE))) as reader:
        rows = reader.read_all().to_pylist()
    assert [row["item.label"] for row in rows] == [0, 1, 2]
    assert rows[1]["item.x"] == [1.5] * 4
    assert rows[2]["item.name"] == "n2"


def test_hugging_faces_datasets_opens_the_folder(to: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    pack(Pictures(3, lambda i: (torch.full((2,), i), f"n{i}")), to)
    assert datasets.load_from_disk(str(to))[1] | {"hotlap_crc32": 0} == {
        "item.0": [1, 1],
        "item.1": "n1",
        "hotlap_other": b"",
        "hotlap_crc32": 0,
    }


# What is refused, and leaves nothing


OWN = np.random.default_rng(0)
COUNTER = [0] * 100


class Count(Pictures):
    """Counts where nobody looks."""

    def __getitem__(self, index: Any) -> Any:
        COUNTER[0] += 1
        return COUNTER[0]


class Own(Pictures):
    """Draws from a generator of its own."""

    def __init__(self) -> None:
        super().__init__(20)
        self.generator = random.Random(0)

    def __getitem__(self, index: Any) -> Any:
        return self.generator.random()


def failing(number: int) -> Any:
    if number == 13:
        raise ValueError("a broken photograph")
    return number


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        yield from range(3)


class Untold(Dataset[Any]):
    def __getitem__(self, index: Any) -> Any:
        return 1


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "random": (lambda: Pictures(20, lambda i: random.random()), UserError, "draws random numbers (from random)"),
    "numpy": (lambda: Pictures(20, lambda i: np.random.rand()), UserError, "draws random numbers (from numpy.random)"),
    "torch": (lambda: Pictures(20, lambda i: torch.rand(2)), UserError, "draws random numbers (from torch)"),
    "sometimes": (lambda: Pictures(200, lambda i: torch.rand(2) if i == 77 else i), UserError, "Item 77 of"),
    "own generator": (Own, UserError, "draws random numbers (from Own.generator)"),
    "generator of the module": (lambda: Pictures(20, lambda i: float(OWN.random())), UserError, "random numbers"),
    "clock": (lambda: Pictures(20, lambda i: time.perf_counter_ns()), UserError, "came out different"),
    "os.urandom": (lambda: Pictures(20, lambda i: os.urandom(8)), UserError, "came out different"),
    "counter": (Count, UserError, "came out different"),
    "an error": (lambda: Pictures(20, failing), ScriptFailed, "Item 13 of Pictures cannot be computed (ValueError: a"),
    "named tuple": (lambda: Pictures(20, BUILDS["named"]), UserError, "sets.Pair, which is not kept"),
    "a set": (
        lambda: Pictures(200, lambda i: {i} if i == 99 else i),
        UserError,
        "Item 99 of Pictures cannot be packed",
    ),
    "no items": (lambda: Pictures(0), UserError, "no items"),
    "iterable": (Stream, UserError, "map-style"),
    "no length": (Untold, ScriptFailed, "The length of Untold cannot be computed"),
    "a class": (lambda: Pictures, UserError, "class (Pictures)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_packed_is_refused_and_leaves_nothing(name: str, to: Path) -> None:
    make, kind, said = REFUSED[name]
    with pytest.raises(kind) as refused:
        pack(make(), to)
    assert said in str(refused.value)
    assert list(to.parent.iterdir()) == []


def test_the_error_of_an_item_is_shown_with_its_own_traceback(to: Path) -> None:
    with pytest.raises(ScriptFailed) as failed:
        pack(Pictures(20, failing), to)
    assert "in failing" in failed.value.output


def test_a_folder_that_is_there_is_left_as_it_is(to: Path) -> None:
    to.mkdir()
    (to / "mine").write_text("mine")
    with pytest.raises(UserError, match="is there already, and is left as it is"):
        pack(Pictures(3), to)
    assert (to / "mine").read_text() == "mine"
    with pytest.raises(UserError, match="there is no folder"):
        pack(Pictures(3), to / "deeper" / "still")


def test_a_folder_that_appears_meanwhile_is_left_as_it_is(to: Path) -> None:
    def appear(what: str, done: int, count: int) -> None:
        to.mkdir(exist_ok=True)

    with pytest.raises(UserError, match="is there already"):
        pack(Pictures(3), to, progress=appear)
    assert list(to.parent.iterdir()) == [to]
    assert list(to.iterdir()) == []


@contextmanager
def full_after(num_bytes: int) -> Iterator[None]:
    """No file may grow larger; the error is another than that of a full disk, and comes from the same place."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_takes_no_more_leaves_nothing(to: Path) -> None:
    with full_after(100_000), pytest.raises(UserError, match=r"cannot be written to: .* Nothing was left there"):
        pack(Pictures(50, lambda i: torch.full((1000,), i)), to)
    assert list(to.parent.iterdir()) == []


def test_what_the_disk_cannot_hold_is_refused_before_it_is_begun(to: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1_000_000}))
    with pytest.raises(UserError, match=r"would take about .* MiB .* free. Name a folder on another disk"):
        pack(Pictures(500, lambda i: torch.full((1000,), float(i))), to)
    assert list(to.parent.iterdir()) == []


@pytest.mark.parametrize("when", ["packing", "comparing"])
def test_an_interruption_leaves_nothing(when: str, to: Path) -> None:
    def interrupt(what: str, done: int, count: int) -> None:
        if (what, done) == (when, 11):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(Pictures(20), to, progress=interrupt)
    assert list(to.parent.iterdir()) == []


def test_what_a_killed_run_left_is_removed_and_what_a_living_one_holds_is_not(to: Path) -> None:
    dead, living = (to.parent / f".packed.{name}.partial" for name in ("dead", "living"))
    for folder in (dead, living):
        folder.mkdir()
        (folder / "data").write_text("half")
    lock = os.open(living, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        pack(Pictures(3), to)
    finally:
        os.close(lock)
    assert {path.name for path in to.parent.iterdir()} == {"packed", living.name}


def test_of_a_large_data_set_as_many_items_are_compared_as_is_said(to: Path) -> None:
    computed: list[int] = []

    def item(number: int) -> int:
        computed.append(number)
        return number

    packing = pack(Pictures(1000, item), to, verify=10)
    assert packing.num_verified == 10
    assert len(computed) < 1000 + 10 + 2 * pack_writing.NUM_SAMPLES + 2


# Workers


def dying(number: int) -> Any:
    if number == 13 and get_worker_info() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_workers_write_the_same_bytes_and_leave_the_generators_alone(to: Path) -> None:
    dataset = Pictures(200, BUILDS["texts"])
    pack(dataset, to)
    before = states()
    pack(dataset, to.with_name("other"), num_workers=2)
    assert states() == before
    for path in to.iterdir():
        assert path.read_bytes() == (to.with_name("other") / path.name).read_bytes()


@pytest.mark.parametrize(
    ("build", "kind", "said"),
    [
        (failing, ScriptFailed, "Item 13 of Pictures cannot be computed (ValueError: a broken photograph)"),
        (lambda i: torch.rand(1) if i == 77 else i, UserError, "Item 77 of Pictures draws random numbers (from torch)"),
        (lambda i: {i} if i == 77 else i, UserError, "Item 77 of Pictures cannot be packed"),
        (dying, UserError, "A worker process ended while it computed items"),
    ],
    ids=["error", "draws", "a set", "killed"],
)
def test_what_happens_in_a_worker_is_said_as_if_it_had_happened_here(
    build: Callable[[int], Any], kind: type[Exception], said: str, to: Path
) -> None:
    with pytest.raises(kind) as refused:
        pack(Pictures(200, build), to, num_workers=1)
    assert said in str(refused.value)
    assert list(to.parent.iterdir()) == []


# What has changed is never handed out


def outcome(folder: Path, dataset: Any) -> str:
    """ "same" or "told", whatever is wrong with the folder; anything else fails the test."""
    try:
        found = packed(folder)
        for number in range(len(dataset)):
            if encode(found[number]) != encode(dataset[number]):
                return f"item {number} is another one"
    except (RecordError, UserError):
        return "told"
    return "same"


def test_no_changed_byte_is_ever_handed_out(to: Path) -> None:
    dataset = Pictures(9, BUILDS["texts"])
    pack(dataset, to)
    for path in (to / pack_folder.TABLE, to / pack_folder.MANIFEST):
        whole = path.read_bytes()
        seen = set()
        for place in random.Random(0).sample(range(len(whole)), min(400, len(whole))):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
            seen.add(outcome(to, dataset))
        assert seen <= {"same", "told"}  # the same where the byte only fills up, or is a name that nobody needs
        assert "told" in seen
        path.write_bytes(whole)
    assert outcome(to, dataset) == "same"


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
@pytest.mark.parametrize("name", [pack_folder.TABLE, pack_folder.MANIFEST])
def test_a_truncated_file_is_told(name: str, share: float, to: Path) -> None:
    pack(Pictures(30), to)
    path = to / name
    os.truncate(path, int(share * path.stat().st_size))
    with pytest.raises(RecordError, match=r"is damaged.*Remove .* and pack the data set again"):
        packed(to)


def test_a_file_that_is_truncated_while_it_is_read_is_told(to: Path) -> None:
    pack(Pictures(30), to)
    dataset = packed(to)
    dataset[0]
    os.truncate(to / pack_folder.TABLE, 100)
    with pytest.raises(RecordError, match="it has 100 bytes instead of"):
        dataset[0]


def test_a_file_that_is_changed_while_it_is_read_is_told(to: Path) -> None:
    pack(Pictures(2, lambda i: b"%d" % i * 1000), to)
    dataset = packed(to)
    assert dataset[1] == b"1" * 1000
    with (to / pack_folder.TABLE).open("r+b") as file:
        place = file.read().index(b"1" * 1000)
        file.seek(place + 500)
        file.write(b"0")
    with pytest.raises(RecordError, match="the checksum of item 1 differs"):
        dataset[1]
    assert dataset[0] == b"0" * 1000


def test_a_missing_table_is_told(to: Path) -> None:
    pack(Pictures(3), to)
    (to / pack_folder.TABLE).unlink()
    with pytest.raises(UserError, match="cannot be read: No such file"):
        packed(to)


def test_the_table_of_another_data_set_is_told(to: Path) -> None:
    pack(Pictures(30, BUILDS["label"]), to)
    pack(Pictures(30, BUILDS["float"]), to.with_name("other"))
    (to.with_name("other") / pack_folder.TABLE).rename(to / pack_folder.TABLE)
    with pytest.raises(RecordError, match="is damaged"):
        packed(to)[0]


def test_a_folder_of_another_format_is_told(to: Path) -> None:
    pack(Pictures(3), to)
    path = to / pack_folder.MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with pytest.raises(RecordError, match="has format 99, and this hotlap reads 1"):
        packed(to)


def test_a_folder_that_holds_nothing_of_ours_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no packed data set"):
        packed(tmp_path)
    with pytest.raises(UserError, match="does not exist"):
        packed(tmp_path / "nowhere")


def test_without_pyarrow_it_says_what_to_install(to: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(Pictures(3), to)
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for action in (lambda: packed(to), lambda: pack(Pictures(3), to.with_name("other")), lambda: estimate(Pictures(3))):
        with pytest.raises(UserError, match=r"pip install 'hotlap\[pack\]'"):
            action()


# The estimate


def test_an_estimate_measures_both_ways_and_leaves_nothing(to: Path) -> None:
    dataset = Pictures(1000, lambda i: torch.full((1000,), float(i)))
    found = estimate(dataset, target=to)
    assert (found.num_items, found.num_measured) == (1000, 256)
    assert found.num_rounds >= 3
    assert found.before_s > 0 and found.after_s > 0
    assert 0 < found.speedup[0] <= found.speedup[1]
    # 4,000 bytes each, and what comes with them.
    assert 4_000_000 <= found.num_bytes < 5_000_000
    assert list(to.parent.iterdir()) == []


def test_an_estimate_refuses_what_cannot_be_packed(to: Path) -> None:
    with pytest.raises(UserError, match="draws random numbers"):
        estimate(Pictures(10, lambda i: torch.rand(1)), target=to)
