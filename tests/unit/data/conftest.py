"""What tests of kept heads share."""

import warnings
from collections.abc import Iterator

import pytest

from hotlap.data import prefix


@pytest.fixture
def any_head(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Heads are kept however little time they take: those of test items take none."""
    monkeypatch.setattr(prefix, "LEAST_SHARE", 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12, about any DataLoader's workers
        yield
