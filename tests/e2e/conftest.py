"""Fixtures of the end-to-end tests."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from hotlap.launch import Launcher, trial_group
from tests.e2e.running import SCRIPTS, Forks, opened_forks


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    with Launcher(environment=lambda plan: {}, folders=[SCRIPTS], timeout_s=400.0) as launcher:
        yield launcher


@pytest.fixture(scope="package")
def forks() -> Iterator[Forks]:
    """Not for a whole worker: it holds a socket and child processes, which keep `cached` from filling in forks. It ends
    with the tests of this folder, which a worker runs one after the other."""
    with opened_forks() as forks:
        yield forks


@pytest.fixture
def much_later(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A path: when a script makes a file of it, 1000 seconds are over for the launcher, however long it took to start.

    It lies in no folder that a launcher covers.
    """
    path = tmp_path_factory.mktemp("later") / "now"
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + 1000.0 * path.exists())
    monkeypatch.setattr(trial_group, "time", later)
    return path


@pytest.fixture(autouse=True, scope="session")
def ctrl_c_works() -> None:
    """A shell starts what it puts into the background with SIGINT ignored, and the processes of a test inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    """Where others use the cores, two threads that wait for one another cost more than a training of tiny tensors: a
    run of plain.py 2.1 s of a core, not 0.5. Tests of threads choose for themselves; blocks of the docs run without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield
