"""Settings that are left off for some steps: which are asked about, and that all is as it was afterwards."""

from collections.abc import Callable
from typing import cast

import pytest
import torch

from hotlap.levers.lever import Patch
from hotlap.probe.profilers.what_if import WhatIfs
from hotlap.probe.session import Session
from hotlap.record import Neighbour, WhatIf
from tests.unit.probe.profilers.stage import Stage, play


@pytest.fixture(autouse=True)
def others(monkeypatch: pytest.MonkeyPatch) -> list[Neighbour]:
    """As many threads as cores, and these programs beside."""
    found: list[Neighbour] = []
    monkeypatch.setattr("hotlap.probe.profilers.what_if.usable_cores", lambda: float(torch.get_num_threads()))
    monkeypatch.setattr("hotlap.probe.profilers.what_if.neighbours", lambda *_: found)
    return found


def asked(step: Callable[[], object]) -> dict[str, WhatIf]:
    return {one.setting: one for one in play(WhatIfs(), step, num_steps=WhatIfs.num_steps)["what_ifs"]}


def test_nothing_is_asked_where_nothing_is_set() -> None:
    assert asked(lambda: torch.ones(3)) == {}


def test_this_programs_part_of_the_cores_is_tried_where_another_one_computes(
    others: list[Neighbour], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    scripts: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", scripts.append)
    try:
        others.append(Neighbour(pid=1, name="other.py", threads=2.0, ours=False))
        used: list[int] = []
        found = asked(lambda: used.append(torch.get_num_threads()))
        assert (found["threads"].now, found["threads"].other) == (2, 1)
        assert set(used) == {1, 2}
        assert torch.get_num_threads() == 2
        assert not scripts, "a call of that would be told as a choice of the script's"
        others.append(Neighbour(pid=2, name="main.py", threads=2.0, ours=True))
        assert asked(lambda: None) == {}, "those of one command would each ask at another time"
    finally:
        torch._C.set_num_threads(before)


def test_a_profiler_of_the_scripts_is_left_off_for_some_steps_and_goes_on() -> None:
    made: list[torch.Tensor] = []
    with torch.autograd.profiler.profile() as profiler:
        found = asked(lambda: made.append(torch.ones(3)))
        torch.zeros(3)
    assert 5 <= len(found["profiler"].log_ratios) <= 15, "one of each pair of blocks, as many as half a second holds"
    names = [event.name for event in profiler.function_events or ()]
    assert (found["profiler"].now, found["profiler"].other) == (True, False)
    assert names.count("aten::ones") == len(made) // 2
    assert "aten::zeros" in names


def test_deterministic_algorithms_are_the_scripts_again_when_the_script_ends_early() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    patch = Patch()
    try:
        profiler, on = WhatIfs(), []
        profiler.install(cast(Session, Stage()), patch)
        for _ in range(6):
            profiler.goes_on()
            on.append(torch.are_deterministic_algorithms_enabled())
        profiler.close()
        assert on == [True] * 4 + [False] * 2
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        patch.undo()
        torch.use_deterministic_algorithms(False)
