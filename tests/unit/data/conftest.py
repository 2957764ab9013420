"""What tests of data sets and loaders share."""

import sys
from types import ModuleType
from typing import Any

import pytest

from hotlap.data.checks import inputs
from hotlap.data.item_cache import memory
from tests.unit.data.sets import Marked


@pytest.fixture(autouse=True)
def torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not installed here; what stands in for its classes can be imported as they are."""
    module: Any = ModuleType(Marked.__module__)
    module.Marked = Marked
    monkeypatch.setitem(sys.modules, "torchvision", ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, Marked.__module__, module)


@pytest.fixture(autouse=True)
def a_process_that_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests' data sets were given, which may not be gone yet, and of how much, is not this test's affair."""
    monkeypatch.setattr(memory.ALLOWANCE, "_held", {})
    monkeypatch.setattr(memory.ALLOWANCE, "_whole_bytes", 0)


@pytest.fixture(autouse=True)
def looking_takes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set is not refused because this process holds much, or a busy machine looks into it slowly."""
    monkeypatch.setattr(inputs, "LEAST_S", 60.0)
