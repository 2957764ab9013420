"""Fixtures of the end-to-end tests."""

from collections.abc import Iterator

import pytest

from hotlap.launch import Launcher
from tests.e2e.running import SCRIPTS


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    with Launcher(environment=lambda plan: {}, folders=[SCRIPTS], timeout_s=120.0) as launcher:
        yield launcher
