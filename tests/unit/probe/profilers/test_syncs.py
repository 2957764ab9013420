"""Calls that wait for the device: heard through warnings, timed, and told with their line."""

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from hotlap import cuda as device
from hotlap.levers.lever import Patch
from hotlap.probe.profilers.syncs import Syncs
from hotlap.record import Sighting, SightingKind
from tests.unit.probe.profilers.stage import Stage, play

TEXT = "called a synchronizing CUDA operation (Triggered internally at CUDAFunctions.cpp:151.)"


# As torch's own: its frames are not the user's.
ITEM = compile(
    f"""
def slow_item(tensor):
    value = item(tensor)
    if torch.mode:
        warnings.warn("{TEXT}", UserWarning, stacklevel=2)
    return value
""",
    "<torch>",
    "exec",
)


class Torch:
    """torch with a device: while the debug mode is on, reading a tensor warns when it is over."""

    def __init__(self) -> None:
        self.mode = 0
        self._patch = Patch()
        self._patch.set(device, "in_use", lambda: True)
        self._patch.set(device, "sync_debug_mode", lambda: self.mode)
        self._patch.set(device, "set_sync_debug_mode", self._set)
        names: dict[str, Any] = {"item": torch.Tensor.item, "torch": self, "warnings": warnings}
        exec(ITEM, names)
        self._patch.set(torch.Tensor, "item", names["slow_item"])

    def _set(self, mode: int) -> None:
        self.mode = mode

    def close(self) -> None:
        self._patch.undo()


@pytest.fixture
def cuda(doubles: None) -> Iterator[Torch]:
    found = Torch()
    yield found
    found.close()


def sightings(cuda: Torch, step: Callable[[], object]) -> tuple[Sighting, ...]:
    found: tuple[Sighting, ...] = play(Syncs(), step)["sightings"]
    return found


def test_waits_of_a_validation_are_no_waits_of_a_step(cuda: Torch) -> None:
    loss, stage, made = torch.ones(()), Stage(), list[None]()

    def step() -> None:
        made.append(None)
        validates = len(made) in (2, 4)
        for _ in range(9 if validates else 0):
            loss.double().item()  # validates
        loss.double().item()  # trains
        stage.validated((0.0, 1.0) if validates else None)

    found: tuple[Sighting, ...] = play(Syncs(), step, stage=stage)["sightings"]
    waits = [(one.text, one.per_step) for one in found if one.kind is SightingKind.SYNC]
    assert waits == [("loss.double().item()  # trains", 1.0)]


def test_each_wait_is_counted_with_its_line_and_its_cost(cuda: Torch) -> None:
    loss = torch.ones(())

    def step() -> None:
        for _ in range(3):
            loss.item()  # waits

    (found,) = sightings(cuda, step)
    assert (found.kind, found.what, found.per_step) == (SightingKind.SYNC, "Tensor.item", 3)
    assert found.path == __file__
    assert found.text == "loss.item()  # waits"
    assert found.cost_s is not None
    assert found.cost_s > 0


def test_explicit_waits_are_timed_once(cuda: Torch, monkeypatch: pytest.MonkeyPatch) -> None:
    def synchronize() -> None:
        time.sleep(0.01)
        warnings.warn(TEXT, UserWarning, stacklevel=1)

    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)

    def step() -> None:
        torch.cuda.synchronize()

    (found,) = sightings(cuda, step)
    assert (found.what, found.per_step) == ("torch.cuda.synchronize", 1)
    assert found.cost_s is not None
    assert found.cost_s >= 0.01
    assert torch.cuda.synchronize is synchronize


def test_the_scripts_own_warnings_and_filters_stay(cuda: Torch) -> None:
    loss = torch.ones(())

    def step() -> None:
        warnings.warn("mine", UserWarning, stacklevel=1)
        warnings.filterwarnings("ignore", message="later")
        loss.item()

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        show = warnings.showwarning
        (found,) = sightings(cuda, step)
        assert found.per_step == 1
        assert [str(one.message) for one in heard] == ["mine"] * 4
        assert warnings.showwarning is show
        added = [one for one in warnings.filters if one not in before]
        assert [one[0] for one in added] == ["ignore"]
        assert cuda.mode == 0


def test_waits_are_heard_where_the_script_turns_warnings_into_errors(cuda: Torch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = sightings(cuda, torch.ones(()).item)
    assert found.per_step == 1


def test_a_script_that_raises_at_waits_is_left_alone(cuda: Torch) -> None:
    cuda.mode = 2
    fields = play(Syncs(), torch.ones(()).sum)
    assert fields["sightings"] == ()
    assert fields["notes"]
    assert cuda.mode == 2


def test_a_script_that_warns_at_waits_goes_on_doing_so(cuda: Torch) -> None:
    cuda.mode = 1
    assert sightings(cuda, torch.ones(()).item)
    assert cuda.mode == 1


def test_on_the_cpu_reading_each_loss_is_no_wait() -> None:
    assert play(Syncs(), lambda: torch.ones(()).item()) == {"sightings": (), "notes": ()}
