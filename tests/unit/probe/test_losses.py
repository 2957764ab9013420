"""Losses on a device are read when the window is over, with doubles standing in for it: each is told as it was."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from hotlap.probe.clock import STEP_END, Clock
from hotlap.probe.guard import Guard
from hotlap.probe.ledger import Ledger
from hotlap.probe.losses import Losses, OnDevice


@pytest.fixture(autouse=True)
def doubles_are_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "is_cpu", property(lambda self: self.dtype is not torch.float64))


class Training:
    """Steps that go backward and may change their loss afterwards."""

    def __init__(self, *, evidence: bool = False) -> None:
        self.clock, self.graphs, self.collectives = Clock(), SimpleNamespace(seen=False), SimpleNamespace(active=False)
        session: Any = SimpleNamespace(
            clock=self.clock,
            graphs=self.graphs,
            collectives=self.collectives,
            guard=Guard(),
            must_be_there=None,
            plan=SimpleNamespace(evidence=evidence),
        )
        self.losses = Losses(session)

    def step(self, *roots: Tensor) -> None:
        for root in roots:
            self.losses.went_backward(root)
        self.clock.note((STEP_END, self.clock.now(), self.clock.now()))

    def told(self) -> list[Any]:
        """As the record has them."""
        ledger = Ledger()
        for step in self.clock.read():
            ledger.add(step)
        return list(ledger.columns(measured=frozenset())["loss"])


def loss(value: float) -> Tensor:
    return torch.full((), value, dtype=torch.float64)


def is_copied(training: Training, of: Tensor) -> bool:
    (found,) = (one for step in training.clock.read() for one in step.losses)
    assert isinstance(found, OnDevice)
    return found.tensor.data_ptr() != of.data_ptr()


def test_a_loss_stays_where_it_is_until_it_is_read() -> None:
    training, here = Training(), loss(1.5)
    training.step(here)
    assert not is_copied(training, here)
    training.step(loss(1.5), loss(0.5))
    training.step(torch.tensor(3.0), loss(1.0))
    assert training.told() == [2.0, 4.0]


@pytest.mark.parametrize("place", [0, 1])
def test_one_that_was_changed_in_place_is_not_known_and_those_after_it_are_copied(place: int) -> None:
    training = Training()
    for value in (1.0, 2.0, 3.0):
        losses = [loss(value), loss(value)]
        training.step(*losses)
        losses[place] *= 10  # as a script does to print it
    assert training.told() == [None, 4.0, 6.0]


def test_the_gate_is_told_all_of_them() -> None:
    training = Training(evidence=True)
    for value in (1.0, 2.0):
        here = loss(value)
        training.step(here)
        here.zero_()
    assert training.told() == [1.0, 2.0]


def test_what_a_graph_writes_again_and_again_is_copied_each_time() -> None:
    training, static = Training(), loss(0.0)
    training.graphs.seen = True
    for value in (1.0, 2.0):
        static.data.fill_(value)  # a replay tells nobody
        training.step(static)
    assert training.told() == [1.0, 2.0]


def test_what_processes_add_up_among_them_is_copied() -> None:
    training, here = Training(), loss(1.0)
    training.collectives.active = True
    training.step(here)
    here.data.fill_(4.0)  # as all_reduce writes
    assert training.told() == [1.0]


def test_a_larger_tensor_is_not_held_for_a_loss_within_it() -> None:
    training, losses = Training(), torch.ones(1000, dtype=torch.float64)
    training.step(losses[0])
    assert is_copied(training, losses)


@pytest.mark.parametrize("on", [torch.float32, torch.float64])
def test_a_scaled_loss_is_told_as_it_was_before(on: torch.dtype) -> None:
    training, here = Training(), torch.tensor(2.0, dtype=on)
    scaled = here * 1024
    training.losses.scaled(scaled, None, here)
    training.step(scaled)
    training.step(here)
    assert training.told() == [2.0, 2.0]


@pytest.mark.parametrize(
    "roots", [lambda: torch.tensor(1j), lambda: torch.ones(2), lambda: [torch.tensor(1j)], lambda: None]
)
def test_what_is_no_number_is_no_loss(roots: Callable[[], Any]) -> None:
    training = Training()
    training.step(roots())
    training.step(torch.ones(1))
    assert training.told() == [None, 1.0]
