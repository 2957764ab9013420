"""The first filling in parallel processes: the same items, and nothing that this process would not have seen."""

import contextlib
import math
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from hotlap.data import cached
from hotlap.data.checks.forked import cannot_fork, fill_in_copies
from tests.unit.data.sets import Pictures, assert_same_epochs, epochs, seed, states


@pytest.fixture(autouse=True)
def parallel(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """However few items there are."""
    monkeypatch.setattr("hotlap.data.item_cache.engine.FILL_LEAST_S", 0.0)
    monkeypatch.setattr("hotlap.data.item_cache.engine.usable_cores", lambda: 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


class Here(Pictures):
    """Items tell whether they were computed in this process, where nobody looks."""

    def __getitem__(self, index: Any) -> Any:
        sys.modules[__name__].HERE[0] += 1
        return super().__getitem__(index)


HERE = [0] * 100


def test_items_are_computed_in_other_processes() -> None:
    HERE[0] = 0
    ours = cached(Here(500))
    assert_same_epochs(epochs(ours), epochs(Pictures(500)))
    assert ours.full and ours.note is None
    assert HERE[0] < 40
    assert not running()


@pytest.mark.parametrize(("least_s", "most_s"), [(60.0, math.inf), (0.0, 0.0)])
def test_what_costs_little_or_takes_long_is_computed_as_it_is_asked_for(
    least_s: float, most_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hotlap.data.item_cache.engine.FILL_LEAST_S", least_s)
    monkeypatch.setattr("hotlap.data.item_cache.engine.FILL_MOST_S", most_s)
    ours = cached(Pictures(300))
    ours.__getitems__([0, 1, 2])
    assert ours.num_cached == 3


def test_they_are_also_for_a_script_whose_indices_are_no_plain_numbers() -> None:
    order: Any = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    HERE[0] = 0
    ours = cached(Here(300))
    settings = {"shuffle": False, "sampler": order, "batch_size": 8}
    assert_same_epochs(epochs(ours, **settings), epochs(Pictures(300), **settings))
    assert ours.full and HERE[0] < 40


def test_the_random_streams_are_left_alone() -> None:
    ours = cached(Pictures(300))
    seed()
    before = states()
    ours.__getitems__([0, 1, 2])
    assert ours.full and states() == before


class DrawsLate(Pictures):
    def __getitem__(self, index: Any) -> Any:
        return torch.rand(()) if index == 299 else torch.tensor(float(index))


def test_an_item_that_draws_is_found_there_too() -> None:
    ours = cached(DrawsLate(300))
    assert_same_epochs(epochs(ours), epochs(DrawsLate(300)))
    assert ours.note is not None and "draws random numbers" in ours.note


class CountsLate(Pictures):
    calls = 0

    def __getitem__(self, index: Any) -> Any:
        if index >= 290:
            self.calls += 1
        return torch.tensor(float(index))


def test_a_data_set_that_changes_itself_is_left_alone() -> None:
    ours, plain = cached(CountsLate(300)), CountsLate(300)
    assert_same_epochs(epochs(ours, shuffle=False), epochs(plain, shuffle=False))
    assert ours.calls == plain.calls == 30
    assert ours.note is not None and "changes an attribute of CountsLate" in ours.note


class FailsLate(Pictures):
    def __getitem__(self, index: Any) -> Any:
        if index == 299:
            raise ValueError("item 299 is broken")
        return torch.tensor(float(index))


def test_an_item_that_fails_fails_where_the_script_asks_for_it() -> None:
    ours = cached(FailsLate(300))
    assert len(epochs(ours, shuffle=False, sampler=range(290))) == 3 * 37
    with pytest.raises(ValueError, match="item 299 is broken"):
        epochs(ours, shuffle=False)


class Varies(Pictures):
    def __getitem__(self, index: Any) -> Any:
        return (index, None) if index == 299 else (index, index)


def test_items_that_differ_late_are_kept_one_by_one() -> None:
    ours = cached(Varies(300))
    assert_same_epochs(epochs(ours, collate_fn=list), epochs(Varies(300), collate_fn=list))
    assert ours.full


class Dies(Pictures):
    def __getitem__(self, index: Any) -> Any:
        if index == 250 and os.getpid() != OWN:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.tensor(float(index))


OWN = os.getpid()


def test_a_process_that_is_killed_leaves_its_items_to_this_one() -> None:
    ours = cached(Dies(300))
    assert_same_epochs(epochs(ours), epochs(Dies(300)))
    assert ours.full and not running()


class Reads(Pictures):
    """Reads from a file that is open in this process."""

    def __init__(self, path: Path) -> None:
        super().__init__(300)
        path.write_bytes(bytes(range(250)) * 2)
        self.file = path.open("rb", buffering=0)

    def __getitem__(self, index: Any) -> Any:
        self.file.seek(index)
        return torch.tensor(self.file.read(1)[0])


def test_a_file_that_processes_would_share_keeps_the_work_here(tmp_path: Path) -> None:
    ours = cached(Reads(tmp_path / "x"))
    try:
        ours.__getitems__([3, 4, 5])
        reason = cannot_fork()
        assert reason is not None and str(tmp_path / "x") in reason
        assert ours.num_cached < 10
    finally:
        ours.file.close()


def fill_for_long(folder: Path, limit_s: float) -> None:
    def waits(_: range) -> bool:
        (folder / str(os.getpid())).touch()
        time.sleep(0.05)
        return True

    fill_in_copies(waits, num_items=1_000_000, num_processes=2, item_s=1.0, limit_s=limit_s)


def wait_for(happened: Callable[[], bool]) -> bool:
    until = time.monotonic() + 120
    while time.monotonic() < until and not happened():
        time.sleep(0.05)
    return happened()


def test_fillers_end_when_this_process_does(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        try:
            fill_for_long(tmp_path, 600.0)
        finally:
            os._exit(1)
    assert wait_for(lambda: len([*tmp_path.iterdir()]) == 2)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert wait_for(lambda: not any(_lives(int(file.name)) for file in tmp_path.iterdir()))


def test_fillers_end_when_their_time_is_over(tmp_path: Path) -> None:
    fill_for_long(tmp_path, 0.5)
    assert not running()


def running() -> list[Any]:
    """Without multiprocessing's own, which the first spawned worker of any test leaves behind."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # it ends just now
            if child.status() != psutil.STATUS_ZOMBIE and "resource_tracker" not in " ".join(child.cmdline()):
                found.append(child)
    return found


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
