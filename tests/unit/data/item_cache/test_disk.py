"""cached(disk=...): the next run starts warm, and nothing that is damaged, changed or half done is ever handed out."""

import errno
import fcntl
import gc
import io
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset, TensorDataset

from hotlap.data import cached
from hotlap.data.checks import inputs
from hotlap.data.checks.inputs import Contents, _stamps
from hotlap.data.checks.opened_files import OpenedFiles
from hotlap.data.checks.watch import Watch
from hotlap.data.item.codec import CannotKeep
from hotlap.data.item_cache.memory import limit_bytes
from tests.unit.data.sets import BUILDS, Counting, Pictures, assert_same_epochs, epochs

SOURCE = """
    import sys, torch
    from torch.utils.data import DataLoader, Dataset
    from hotlap.data import cached

    class Squares(Dataset):
        def __init__(self, scale): self.scale = scale
        def __len__(self): return 50
        def __getitem__(self, i): return torch.full((4,), float(i)) * self.scale, i

    kept = cached(Squares(1.0), disk=sys.argv[1])
    total = sum(float(x.sum()) for x, _ in DataLoader(kept, batch_size=8))
    print(kept.warm, total, kept.note)
"""


# Each in a fork of one process, in which torch and hotlap are imported once.
RUNS = """
import os, runpy, sys
import torch
from hotlap.data import cached
cache, *texts = sys.argv[1:]
sys.argv[1:] = [cache]
for text in texts:
    with open("train.py", "w") as file:
        file.write(text)
    if os.fork() == 0:
        runpy.run_path("train.py", run_name="__main__")
        sys.exit()
    assert os.wait()[1] == 0
    print(*os.listdir(cache), flush=True)
"""


def told_by(folder: Path, *texts: str) -> list[str]:
    """Two lines a run of a script that is edited in between: was it warm, the sum of all items, the note; all files."""
    words = [sys.executable, "-c", RUNS, "cache", *map(textwrap.dedent, texts)]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()


def files(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.processes
def test_the_next_run_starts_warm_unless_content_or_source_changed(tmp_path: Path) -> None:
    commented = SOURCE.replace("def __len__", "# a comment\n        def __len__")
    other = SOURCE.replace("Squares(1.0)", "Squares(2.0)")
    changed = SOURCE.replace("* self.scale", "* self.scale + 1")
    said = told_by(tmp_path, SOURCE, commented, other, changed)
    assert said[::2] == ["False 4900.0 None", "True 4900.0 None", "False 9800.0 None", "False 5100.0 None"]
    assert [len(names.split()) for names in said[1::2]] == [1, 1, 2, 3]
    assert files(tmp_path / "cache") == [".cache"] * 3


@pytest.mark.parametrize("name", [name for name in BUILDS if name not in ("text", "texts", "bytes", "named")])
@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.processes)])
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_warm_items_of_every_kind_are_the_same(name: str, num_workers: int, tmp_path: Path) -> None:
    build = BUILDS[name]
    epochs(cached(Pictures(50, build), disk=tmp_path), num_epochs=1, num_workers=num_workers)
    warm = cached(Pictures(50, build), disk=tmp_path)
    assert_same_epochs(epochs(warm, num_workers=num_workers), epochs(Pictures(50, build), num_workers=num_workers))
    assert warm.warm and warm.full and warm.note is None


class CountsOutside(Pictures):
    """Counts where no key looks."""

    def __getitem__(self, index: Any) -> Any:
        os.environ["HOTLAP_TEST_CALLS"] = os.environ.get("HOTLAP_TEST_CALLS", "") + "x"
        return super().__getitem__(index)


def test_a_warm_run_computes_a_few_items_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs(cached(CountsOutside(), disk=tmp_path), num_epochs=1)
    monkeypatch.setenv("HOTLAP_TEST_CALLS", "")
    warm = cached(CountsOutside(), disk=tmp_path)
    epochs(warm, num_epochs=1)
    assert warm.warm and len(os.environ["HOTLAP_TEST_CALLS"]) < 25


def damaged(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "a byte flipped":
        data[200] ^= 1
    elif how == "the description changed":
        data[-40] ^= 1
    elif how == "zeros at the end":
        data += bytes(100)
    else:
        del data[{"half": len(data) // 2, "one byte short": -1, "empty": 0}[how] :]
    path.write_bytes(data)


@pytest.mark.parametrize(
    "how", ["a byte flipped", "the description changed", "zeros at the end", "half", "one byte short", "empty"]
)
def test_a_damaged_file_is_rebuilt_and_it_is_said(how: str, tmp_path: Path) -> None:
    epochs(cached(Pictures(), disk=tmp_path), num_epochs=1)
    (path,) = tmp_path.glob("*.cache")
    damaged(path, how)
    kept = cached(Pictures(), disk=tmp_path)
    assert_same_epochs(epochs(kept), epochs(Pictures()))
    assert not kept.warm and kept.full
    assert kept.note is not None and "damaged" in kept.note
    assert cached_is_warm(tmp_path)


def cached_is_warm(folder: Path) -> bool:
    again = cached(Pictures(), disk=folder)
    epochs(again, num_epochs=1)
    return again.warm


def test_items_that_depend_on_what_no_key_can_hold_are_compared_first(tmp_path: Path) -> None:
    hidden = np.ones(1)

    class Hidden(Pictures):
        def __getitem__(self, index: Any) -> Any:
            return torch.tensor(index * secret())

    def secret() -> float:
        return float(os.environ.get("HOTLAP_TEST_SECRET", "1.0")) * float(hidden[0])

    epochs(cached(Hidden(), disk=tmp_path), num_epochs=1)
    os.environ["HOTLAP_TEST_SECRET"] = "3.0"
    try:
        kept = cached(Hidden(), disk=tmp_path)
        assert_same_epochs(epochs(kept), epochs(Hidden()))
    finally:
        del os.environ["HOTLAP_TEST_SECRET"]
    assert not kept.warm
    assert kept.note is not None and "holds other items" in kept.note


def test_a_full_disk_means_memory_and_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    kept = cached(Pictures(), disk=tmp_path)
    assert_same_epochs(epochs(kept), epochs(Pictures()))
    assert kept.full and files(tmp_path) == []
    assert kept.note is not None and "No space left" in kept.note


def test_a_folder_that_cannot_be_written_means_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = cached(Pictures(), disk=tmp_path / "file")
    epochs(kept)
    assert kept.full and kept.note is not None and "cannot be used" in kept.note


def refusing(kind: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be done so to a finished cache."""
    true = getattr(kind, name)

    def refused(path: Any, *args: Any, **named: Any) -> Any:
        if str(path).endswith(".cache"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return true(path, *args, **named)

    monkeypatch.setattr(kind, name, refused)


def test_a_file_of_somebody_else_that_cannot_be_read_stays_and_means_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs(cached(Pictures(), disk=tmp_path), num_epochs=1)
    (path,) = tmp_path.glob("*.cache")
    number = path.stat().st_ino
    refusing(Path, "open", monkeypatch)
    kept = cached(Pictures(), disk=tmp_path)
    epochs(kept)
    monkeypatch.undo()
    assert kept.full and not kept.warm and kept.note is not None and "Permission denied" in kept.note
    assert path.stat().st_ino == number and files(tmp_path) == [".cache"]


def test_a_file_that_may_only_be_read_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs(cached(Pictures(), disk=tmp_path), num_epochs=1)
    refusing(os, "utime", monkeypatch)
    refusing(Path, "unlink", monkeypatch)
    assert cached_is_warm(tmp_path)
    (path,) = tmp_path.glob("*.cache")
    damaged(path, "half")
    kept = cached(Pictures(), disk=tmp_path)
    epochs(kept)
    assert kept.full and not kept.warm and kept.note is not None and "damaged" in kept.note


def test_what_a_killed_run_left_is_removed_and_what_another_fills_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, owned = tmp_path / "a.partial", tmp_path / "b.partial"
    for path in (left, owned):
        path.write_bytes(b"half")
    with owned.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        # Made a moment ago, a file might not be locked yet; these count as older.
        monkeypatch.setattr("hotlap.data.item_cache.disk._LOCKED_BY_S", 0.0)
        epochs(cached(Pictures(), disk=tmp_path), num_epochs=1)
    assert not left.exists() and owned.exists()


def test_two_trainings_that_fill_the_same_cache_do_not_meet(tmp_path: Path) -> None:
    first, second = cached(Pictures(), disk=tmp_path), cached(Pictures(), disk=tmp_path)
    plain = epochs(Pictures())
    assert_same_epochs(epochs(first), plain)
    assert_same_epochs(epochs(second), plain)
    assert first.full and second.full and files(tmp_path) == [".cache"]


def test_an_unfinished_file_goes_with_its_owner(tmp_path: Path) -> None:
    kept = cached(Pictures(), disk=tmp_path)
    next(iter(epochs(Subset(kept, range(10)), num_epochs=1)))
    assert files(tmp_path) == [".partial"]
    del kept
    assert files(tmp_path) == []


def test_what_memory_cannot_hold_is_kept_on_disk_alone(tmp_path: Path) -> None:
    kept, at_all = cached(Pictures(), memory_bytes=1000, disk=tmp_path), cached(Pictures(), memory_bytes=1000)
    for each in (kept, at_all):
        assert_same_epochs(epochs(each), epochs(Pictures()))
    assert kept.full and kept.note is None
    assert at_all.num_cached == 0 and at_all.note is not None and "disk=True" in at_all.note


def test_a_folder_that_lies_in_memory_saves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotlap.data.item_cache.fill.lies_in_memory", lambda folder: True)
    kept = cached(Pictures(), memory_bytes=1000, disk=tmp_path)
    assert_same_epochs(epochs(kept), epochs(Pictures()))
    assert kept.num_cached == 0 and files(tmp_path) == []
    assert kept.note is not None and "of memory may be used" in kept.note


def test_a_cache_on_disk_in_memory_takes_from_the_allowance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_MEMORY", "10MB")
    monkeypatch.setattr("hotlap.data.item_cache.fill.lies_in_memory", lambda folder: True)
    kept = cached(Pictures(), disk=tmp_path)
    epochs(kept)
    assert kept.full and limit_bytes() < 10_000_000
    del kept
    gc.collect()
    assert limit_bytes() == 10_000_000


def key_of(dataset: Any) -> str:
    return Contents(dataset, Watch(dataset), OpenedFiles(), item_s=1e9, num_items=1).key()


TRUE: Any = torch.ones(1)

KEYS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "tensor": (lambda: TensorDataset(torch.zeros(3)), lambda: TensorDataset(torch.ones(3))),
    "dtype": (lambda: [torch.zeros(1)], lambda: [torch.zeros(1, dtype=torch.int32)]),
    "array": (lambda: [np.zeros(3)], lambda: [np.ones(3)]),
    "order": (lambda: {"a": 1, "b": 2}, lambda: {"b": 2, "a": 1}),
    "constant": (lambda: Pictures(50, lambda i: i), lambda: Pictures(50, lambda i: i + 1)),
    "closure": (lambda: Pictures(50, adding(1)), lambda: Pictures(50, adding(2))),
    "class": (Pictures, Counting),
    "subset": (lambda: Subset(Pictures(), [1, 2]), lambda: Subset(Pictures(), [2, 1])),
    "which of two": (lambda: which_of_two(0), lambda: which_of_two(1)),
    "an entry among objects": (lambda: (TRUE, 1, [TRUE]), lambda: (TRUE, 2, [TRUE])),
    "a set": (lambda: {"a", "b", "c"}, lambda: {"a", "b", "d"}),
    "an object of C": (lambda: [re.compile("a")], lambda: [re.compile("b")]),
    "a code inside": (
        lambda: Pictures(50, lambda i: [k for k in [i]]),
        lambda: Pictures(50, lambda i: [k + 1 for k in [i]]),
    ),
    "bytes in memory": (lambda: [io.BytesIO(b"a")], lambda: [io.BytesIO(b"b")]),
    "an array of objects": (lambda: [np.array([1, "a", None])], lambda: [np.array([1, "b", None])]),
}


def which_of_two(number: int) -> Any:
    both = [[TRUE], [TRUE]]
    return [both, both[number]]


def adding(number: int) -> Callable[[int], int]:
    return lambda i: i + number


@pytest.mark.parametrize("name", KEYS)
def test_a_key_tells_content_and_code_apart(name: str) -> None:
    one, other = KEYS[name]
    assert key_of(one()) == key_of(one())
    assert key_of(one()) != key_of(other())


def test_a_key_changes_with_the_files_that_a_data_set_names(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    image = tmp_path / "below" / "1.png"
    image.write_bytes(b"one")
    for named in ([str(image)], [tmp_path], {"root": str(tmp_path)}):
        before = key_of(named)
        image.write_bytes(b"other")
        assert key_of(named) != before
        image.write_bytes(b"one")


def test_what_is_written_beside_the_data_without_being_data_changes_no_key(tmp_path: Path) -> None:
    (tmp_path / "1.png").write_bytes(b"one")
    before = key_of([tmp_path])
    for name in (".hotlap", "__pycache__"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_bytes(b"x")
    assert key_of([tmp_path]) == before
    (tmp_path / "2.png").write_bytes(b"two")
    assert key_of([tmp_path]) != before


def test_a_key_changes_with_files_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data" / "latest").symlink_to(".")
    (tmp_path / "data" / "1.png").write_bytes(b"one")
    before = key_of([tmp_path / "data"])
    (tmp_path / "elsewhere" / "2.png").write_bytes(b"two")
    assert key_of([tmp_path / "data"]) != before
    assert [name for name, *_ in _stamps([str(tmp_path / "data")]) if "latest" in name] == []


def test_folders_that_are_linked_to_each_other_are_looked_at_once(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
        for other in folders:
            (folder / f"to_{other.name}").symlink_to(other)
    assert len(_stamps([str(tmp_path)])) == 1 + len(folders)


def test_folders_count_as_files_where_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abcd":
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").touch()
    assert len(_stamps([str(tmp_path)])) == 9
    for most in range(1, 9):
        monkeypatch.setattr(inputs, "_MOST_FILES", most)
        with pytest.raises(CannotKeep, match=f"more than {most} files"):
            _stamps([str(tmp_path)])
    monkeypatch.setattr(inputs, "_MOST_FILES", 9)
    assert len(_stamps([str(tmp_path)])) == 9


class InFiles:
    """A number in each; `name`: of a file, from what the data set names."""

    def __init__(self, named: Any, name: Callable[[Any, int], str]) -> None:
        self.named, self.name = named, name

    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(float(Path(self.name(self.named, index)).read_text()))


def in_files(folder: Path) -> None:
    folder.mkdir()
    for number in range(50):
        (folder / f"{number}.txt").write_text(str(number))


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.processes)])
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_where_files_change_the_cache_made_before_goes(num_workers: int, tmp_path: Path) -> None:
    in_files(tmp_path / "data")
    for change, is_warm in (("", False), ("", True), ("1000", False), ("", True)):
        if change:
            (tmp_path / "data" / "37.txt").write_text(change)
        data = InFiles(str(tmp_path / "data"), lambda folder, index: f"{folder}/{index}.txt")
        kept = cached(data, disk=tmp_path / "cache")
        assert_same_epochs(epochs(kept, num_workers=num_workers), epochs(data))
        assert (kept.warm, kept.note, files(tmp_path / "cache")) == (is_warm, None, [".cache"])


def test_items_of_files_that_no_text_names_are_not_left_for_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_files(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    for change in ("38", "1000"):  # of which no item that is computed again shows anything
        (tmp_path / "data" / "38.txt").write_text(change)
        data = InFiles(None, lambda _, index: f"data/{index}.txt")
        kept = cached(data, disk=tmp_path / "cache")
        assert_same_epochs(epochs(kept), epochs(data))
        assert kept.full and kept.note is not None and "no text in it names" in kept.note
    assert files(tmp_path / "cache") == []


def test_what_cannot_be_told_has_no_key(tmp_path: Path) -> None:
    with (tmp_path / "x").open("w") as file, pytest.raises(CannotKeep, match="TextIOWrapper"):
        key_of([file])
    kept = cached(Pictures(50, OpenStore(tmp_path / "x")), disk=tmp_path / "cache")
    epochs(kept)
    assert kept.full and kept.note is not None and "not kept on disk" in kept.note


class OpenStore:
    def __init__(self, path: Path) -> None:
        self.file = path.open()

    def __call__(self, number: int) -> Any:
        return torch.tensor(number)

    def __del__(self) -> None:
        self.file.close()


def test_items_of_a_data_set_that_was_changed_meanwhile_are_not_left_for_the_next_run(tmp_path: Path) -> None:
    data: Any = Pictures(50)
    data.levels = [1.0] * 100
    data.build = lambda number: torch.tensor(number * data.levels[number])
    kept = cached(data, disk=tmp_path)
    for number, _ in enumerate(DataLoader(kept, 8)):
        if number == 2:
            data.levels[40] = 2.0
    assert kept.note is not None and "changed while its items were computed" in kept.note
    assert not [*tmp_path.rglob("*.cache")]
