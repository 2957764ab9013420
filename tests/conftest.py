"""Options and fixtures of the whole suite."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regen", action="store_true", help="rewrite the snapshots in tests/golden instead of comparing")


@pytest.fixture
def regen(request: pytest.FixtureRequest) -> bool:
    """True when snapshots are to be rewritten."""
    return bool(request.config.getoption("--regen"))
