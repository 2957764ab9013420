"""How long the parent waits for a child."""

import os
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.launch import heat


@pytest.mark.parametrize(
    ("seen", "grace_s"),
    [
        ([(0, 0.0), (0, 90.0)], 10.0),
        ([(0, 0.0), (1, 90.0), (2, 90.1)], 10.0),
        ([(1, 0.0), (2, 26.0), (3, 50.0)], 52.0),
    ],
    ids=["no step yet", "a long start", "long steps"],
)
def test_a_child_is_given_time_to_end_its_step(
    monkeypatch: pytest.MonkeyPatch, seen: list[tuple[int, float]], grace_s: float
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 0.0)
    progress = SimpleNamespace(steps=0)
    place: Any = SimpleNamespace(plan=SimpleNamespace(only_levers=False), progress=progress)
    process: Any = SimpleNamespace(stdout=BytesIO(), stderr=BytesIO(), pid=os.getpid())
    child = heat._Child(place, process)
    for steps, now in seen:
        progress.steps = steps
        child.look(now)
    assert child.grace_s == grace_s
