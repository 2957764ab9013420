"""Which of the processes that train together a process is."""

import sys
from types import SimpleNamespace

import pytest

from hotlap.probe.clock import Clock
from hotlap.probe.collectives import Collectives


def joined(monkeypatch: pytest.MonkeyPatch, **told: str) -> Collectives:
    """Rank 5 of 8, its environment `told` behind the start of the probe, as in forks of one process."""
    group = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_rank=lambda: 5,
        get_world_size=lambda: 8,
        get_backend=lambda: "gloo",
    )
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "torch.distributed", group)
    found = Collectives(Clock())
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    found.joined()
    return found


def test_the_place_on_this_host_is_what_the_launcher_says(monkeypatch: pytest.MonkeyPatch) -> None:
    found = joined(monkeypatch, LOCAL_RANK="1", LOCAL_WORLD_SIZE="2")
    assert (found.rank, found.world_size, found.local_rank, found.local_size) == (5, 8, 1, 2)


def test_where_nobody_says_it_is_the_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    found = joined(monkeypatch)
    assert (found.local_rank, found.local_size) == (5, 8)
