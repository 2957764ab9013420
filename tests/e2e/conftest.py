"""Fixtures of the end-to-end tests."""

import signal
from collections.abc import Iterator

import pytest

from hotlap.launch import Launcher
from tests.e2e.running import SCRIPTS


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    with Launcher(environment=lambda plan: {}, folders=[SCRIPTS], timeout_s=120.0) as launcher:
        yield launcher


@pytest.fixture(autouse=True, scope="session")
def ctrl_c_works() -> None:
    """A shell starts what it puts into the background with SIGINT ignored, and the processes of a test inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
