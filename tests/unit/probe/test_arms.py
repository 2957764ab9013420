"""Levers in the text of a script are asked whether they are at work, and at their steady state."""

from collections import Counter
from collections.abc import Iterator

import pytest
from torch._dynamo.utils import counters

from hotlap.probe.arms import Arms
from hotlap.record import Plan


@pytest.fixture
def graphs() -> Iterator[Counter[str]]:
    """Dynamo's statistics, empty."""
    counters.clear()
    yield counters["stats"]
    counters.clear()


def test_compiling_is_waited_for_in_an_edited_script(graphs: Counter[str]) -> None:
    arms = Arms(Plan(command=("train.py",), cwd="/", out="/", always=({"name": "compile"},)))
    assert not arms.settled()
    assert arms.not_installed == ["compile mode=default: no model was compiled"]
    graphs["unique_graphs"] = 20
    assert not arms.settled()
    assert arms.not_installed == []
    assert [note.partition(":")[0] for note in arms.notes] == ["torch.compile"], "so many graphs are told"
    asked = 0
    while not arms.settled():
        asked += 1
    assert asked > 20
