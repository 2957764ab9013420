"""Windows of profilers: one after the other, given up where they must be, and told of before the run is over."""

from collections.abc import Callable, Iterator
from typing import cast

import pytest
import torch

from hotlap.levers.lever import Patch
from hotlap.probe.session import Session
from hotlap.probe.windows import Windows
from tests.unit.probe.profilers.stage import Stage

Install = Callable[..., Windows]


@pytest.fixture
def installed() -> Iterator[Install]:
    """Windows on the profilers of these names, until the test is over."""
    patch = Patch()

    def install(*names: str, patience_s: float | None = None) -> Windows:
        windows = Windows(names, patience_s=patience_s)
        windows.install(cast(Session, Stage()), patch)
        return windows

    yield install
    patch.undo()


def num_modes() -> int:
    return len(torch.utils._python_dispatch._get_current_dispatch_mode_stack())


def test_what_a_profiler_saw_is_known_once_it_is_through(installed: Install) -> None:
    windows = installed("switches", "calls")
    assert windows.fields(last=False) == {}
    assert windows.next()
    assert windows.fields(last=False) == {}
    while windows.next():
        torch.ones(3)
    assert "calls" in windows.fields(last=False)
    assert num_modes() == 0


def test_a_forked_process_looks_at_nothing(installed: Install) -> None:
    windows = installed("calls")
    windows.next()
    windows.next()
    assert num_modes() == 1
    windows.forked()
    assert num_modes() == 0


def test_windows_that_are_cancelled_do_not_open_and_say_why(installed: Install) -> None:
    windows = installed("calls", "lines")
    windows.cancel("it is no good time")
    assert windows.idle
    assert not windows.next()
    assert windows.notes == ["No steps were looked at closely: it is no good time."]


def test_where_it_is_to_be_quick_no_other_window_opens_after_a_while(installed: Install) -> None:
    windows = installed("calls", "lines", patience_s=0.0)
    assert windows.next()
    while windows.next():
        torch.ones(3)
    assert "calls" in windows.fields(last=False), "what was begun is done"
    assert "hot_lines" not in windows.fields()
    assert windows.idle
    assert windows.notes == [
        "The time of a first look was over before all was looked at; `hotlap measure` takes longer."
    ]
