"""The first filling in parallel processes: the same items, and nothing that this process would not have seen."""

import contextlib
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from hotlap.data import cached
from hotlap.data.checks.forked import cannot_fork
from hotlap.data.item_cache.fill_pool import FillPool
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


@pytest.mark.parametrize("soon", [True, False])
def test_items_are_computed_in_other_processes(soon: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotlap.data.item_cache.engine.FILL_WAIT_S", 60.0 if soon else 0.0)
    HERE[0] = 0
    ours = cached(Here(500))
    assert_same_epochs(epochs(ours), epochs(Pictures(500)))
    assert ours.full and ours.note is None
    assert HERE[0] < (40 if soon else 540)
    assert gone()


def test_they_are_also_for_a_script_whose_indices_are_no_plain_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotlap.data.item_cache.engine.FILL_WAIT_S", 60.0)
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


def waits(_: range) -> bool:
    time.sleep(0.05)
    return True


def test_fillers_end_when_this_process_does(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        started = FillPool(waits, num_items=1_000_000, num_processes=2, item_s=1.0)
        (tmp_path / "pids").write_text(" ".join(str(process.pid) for process in started._processes))
        os._exit(0)
    os.waitpid(child, 0)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    until = time.monotonic() + 120
    while time.monotonic() < until and any(_lives(pid) for pid in pids):
        time.sleep(0.1)
    assert len(pids) == 2 and not any(_lives(pid) for pid in pids)


class EndsWhenLookedAt:
    """A process that ends between two looks at it."""

    sentinel = 0

    def __init__(self) -> None:
        self._codes = iter([None])

    @property
    def exitcode(self) -> int | None:
        return next(self._codes, 0)


def test_nobody_is_waited_for_when_the_last_one_ends_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait for no process at all lasted as long as it may, ten seconds, with all items there."""
    waited_for: list[Any] = []
    monkeypatch.setattr("hotlap.data.item_cache.fill_pool.wait", lambda ends, limit_s: waited_for.append(ends))
    pool = FillPool(lambda _: False, num_items=1, num_processes=1, item_s=1.0)
    pool.stop()
    pool._processes = [EndsWhenLookedAt()]
    pool.wait(60.0)
    assert waited_for == [[EndsWhenLookedAt.sentinel]]


def running() -> list[Any]:
    """Without multiprocessing's own, which the first spawned worker of any test leaves behind."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # it ends just now
            if child.status() != psutil.STATUS_ZOMBIE and "resource_tracker" not in " ".join(child.cmdline()):
                found.append(child)
    return found


def gone() -> bool:
    """Those that had nothing left to do take a moment to leave."""
    end = time.monotonic() + 120
    while running() and time.monotonic() < end:
        time.sleep(0.01)
    return not running()


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
