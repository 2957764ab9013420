"""Options and fixtures of the whole suite."""

import pytest
from hypothesis import settings

# A test does not fail because others use the machine.
settings.register_profile("hotlap", deadline=None)
settings.load_profile("hotlap")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regen", action="store_true", help="rewrite the snapshots in tests/golden instead of comparing")


@pytest.fixture
def regen(request: pytest.FixtureRequest) -> bool:
    """True when snapshots are to be rewritten."""
    return bool(request.config.getoption("--regen"))
