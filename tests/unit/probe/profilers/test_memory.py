"""How often memory is looked at."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from hotlap import accelerator
from hotlap.probe.profilers import memory


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Seconds that pass, and those in which this thread has a core."""
    made = SimpleNamespace(passed_s=0.0, worked_s=0.0)
    times = SimpleNamespace(perf_counter=lambda: made.passed_s, thread_time=lambda: made.worked_s)
    monkeypatch.setattr(memory, "time", times)
    yield made


@pytest.mark.parametrize(("worked_s", "num_samples"), [(0.0, 20), (5e-6, 20), (30e-6, 10)])
def test_a_look_costs_the_work_in_it_whoever_has_the_core_meanwhile(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, worked_s: float, num_samples: int
) -> None:
    def allocated() -> None:
        clock.passed_s += 0.015  # others have the core
        clock.worked_s += worked_s

    monkeypatch.setattr(accelerator, "allocated_bytes", allocated)
    profiler = memory.Memory()
    for step in range(20):
        profiler.step_ended(step)
        clock.passed_s = 0.020 * (step + 1)
    assert len(profiler.fields()["memory"]) == num_samples
