"""What the tests of the gate begin with."""

import gc
import importlib

import pytest


@pytest.fixture(autouse=True, scope="session")
def optimizers_are_imported() -> None:
    """An optimizer imports torch._dynamo: where that was before, the gate's search need not go through it.

    Here, because a process that only collects these tests would import it for 2 s.
    """
    importlib.import_module("torch._dynamo")

    gc.collect()
    gc.freeze()
