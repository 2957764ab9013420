"""Options and fixtures of the whole suite."""

import gc
import os
import random
import signal
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from hotlap import at_work

# Threads that wait for each other give their core to other processes of the suite, where there are more than cores:
# quick steps of `hotlap lab transformer` beside ten busy processes took 74 s and not more than 250.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# What a shell starts in the background ignores Ctrl-C, and so does all that it starts: scripts of the tests would too.
# With `nohup` it is the end of the terminal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A test does not fail because others use the machine, and draws the same examples in each run; HYPOTHESIS_PROFILE=
# nightly draws new ones each time.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("nightly", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regen", action="store_true", help="rewrite the snapshots in tests/golden instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    """Where all tests run, each worker of xdist begins to collect at another file.

    pytest rewrites the assertions of each file that it imports, which costs 16 of the 28 s of a core that collecting
    takes in a new checkout, and leaves the result in `__pycache__`. Workers that begin at the same file do so at the
    same time, each for itself.
    """
    folder = Path(__file__).parent
    if "PYTEST_XDIST_WORKER" not in os.environ or [Path(arg).resolve() for arg in config.args] != [folder]:
        return
    files = sorted(folder.rglob("test_*.py"))
    worker, number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")), _number_of_workers()
    first = len(files) * worker // number
    config.args = [str(path) for path in files[first:] + files[:first]]


def pytest_collection() -> None:
    """Next to all that is made until the end of the collection stays, and is searched for garbage again and again."""
    gc.disable()


@pytest.hookimpl(trylast=True)  # when those that are not to run are gone
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Workers of xdist begin with what takes long: a suite that ends on one long test idles. End-to-end tests of a file
    stay with one worker, as far as none idles, because they share runs. All workers arrive at the same order, in
    whichever they collected the files."""
    number = _number_of_workers()
    if number == 1:
        return
    items.sort(key=lambda item: item.path)  # stable: within a file the order stays
    groups: dict[object, list[pytest.Item]] = {}
    others = []
    for item in items:
        if item.get_closest_marker("e2e"):
            groups.setdefault(item.path, []).append(item)
        elif item.get_closest_marker("processes"):
            groups[item] = [item]
        else:
            others.append(item)
    shares: list[list[pytest.Item]] = [[] for _ in range(number)]
    for group in sorted(groups.values(), key=_rank, reverse=True):
        min(shares, key=len).extend(group)
    # Each worker is given as many tests as any other, in this order.
    rest = iter(others)
    bounds = [len(items) * k // number for k in range(number + 1)]
    items[:] = [
        item
        for share, first, last in zip(shares, bounds, bounds[1:], strict=False)
        for item in (*share, *islice(rest, max(0, last - first - len(share))))
    ] + list(rest)


def pytest_collection_finish() -> None:
    """No collection of garbage looks again at what was imported and collected: what the gate looks for, it looks for in
    all that is alive."""
    gc.collect()
    gc.freeze()
    gc.enable()


def _number_of_workers() -> int:
    """Of xdist; 1 without it."""
    return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


def _rank(group: list[pytest.Item]) -> tuple[float, bool, str, int]:
    """The highest comes first: who may take longer than others, as the test says, then end-to-end tests. Those of
    a folder stay together, because they share a process that runs their scripts as forks (tests/e2e/conftest.py)."""
    first = group[0]
    limit = first.get_closest_marker("timeout")
    limit_s = float(limit.args[0]) if limit is not None else 0.0
    return limit_s, first.get_closest_marker("e2e") is not None, str(first.path.parent), len(group)


@pytest.fixture
def regen(request: pytest.FixtureRequest) -> bool:
    """True when snapshots are to be rewritten."""
    return bool(request.config.getoption("--regen"))


@pytest.fixture(autouse=True)
def nothing_at_work() -> None:
    """What other tests have put to work is forgotten."""
    at_work.forget()


@pytest.fixture(autouse=True, scope="session")
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing that hotlap keeps for a user is read from, or left in, the home of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def same_start() -> None:
    """Each test begins with the same random numbers, whatever ran before it, and computes in one thread of torch's."""
    random.seed(0)
    np.random.seed(0)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
