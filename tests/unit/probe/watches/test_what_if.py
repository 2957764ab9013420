"""Settings that are left off for some steps: which are asked about, and that all is as it was afterwards."""

from collections.abc import Callable

import pytest
import torch

from hotlap.probe.watches.what_if import WhatIfs
from hotlap.record import WhatIf
from tests.unit.probe.watches.stage import play


@pytest.fixture(autouse=True)
def as_many_threads_as_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotlap.probe.watches.what_if.usable_cores", lambda: float(torch.get_num_threads()))


def asked(step: Callable[[], object]) -> dict[str, WhatIf]:
    return {one.setting: one for one in play(WhatIfs(), step, num_steps=WhatIfs.num_steps)["what_ifs"]}


def test_nothing_is_asked_where_nothing_is_set() -> None:
    assert asked(lambda: torch.ones(3)) == {}


def test_a_profiler_of_the_scripts_is_left_off_for_some_steps_and_goes_on() -> None:
    made: list[torch.Tensor] = []
    with torch.autograd.profiler.profile() as profiler:
        found = asked(lambda: made.append(torch.ones(3)))
        torch.zeros(3)
    names = [event.name for event in profiler.function_events or ()]
    assert (found["profiler"].now, found["profiler"].other) == (True, False)
    assert names.count("aten::ones") == len(made) // 2
    assert "aten::zeros" in names


def test_deterministic_algorithms_are_the_scripts_again_when_the_script_ends_early() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        watch, on = WhatIfs(), []
        watch.open()
        for step in range(6):
            watch.goes_on(step)
            on.append(torch.are_deterministic_algorithms_enabled())
        watch.close(5)
        assert on == [True] * 4 + [False] * 2
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
