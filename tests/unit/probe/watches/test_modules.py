"""Forward passes in vain: told by the gradients that never come."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
import torch
from torch import nn

from hotlap.levers.lever import Patch
from hotlap.probe.session import Session
from hotlap.probe.watches.modules import Modules
from hotlap.record import Sighting
from tests.unit.probe.watches.stage import Stage

X = torch.ones(3, 4)


class Training(Stage):
    """Steps that are counted, and passes that take a millisecond each."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.watch = Modules()

    def call(self, module: nn.Module, *args: Any) -> Any:
        result = module(*args)
        self.script.on_forward[0](module, args, {}, result)
        return result


@pytest.fixture
def training() -> Iterator[Training]:
    stage, patch = Training(), Patch()
    stage.clock.last_s = lambda: 1e-3  # type: ignore[attr-defined]
    stage.watch.install(cast(Session, stage), patch)
    yield stage
    patch.undo()


def wasted(training: Training, step: Any, *, steps: int = 30) -> dict[str, Sighting]:
    for _ in range(steps):
        step()
        training.steps += 1
    return {one.what: one for one in training.watch.fields()["sightings"]}


def test_a_pass_that_is_trained_on_is_none(training: Training) -> None:
    net, loss_fn = nn.Linear(4, 2), nn.MSELoss()
    assert not wasted(training, lambda: training.call(loss_fn, training.call(net, X), torch.zeros(3, 2)).backward())


def test_a_loss_that_is_only_looked_at_saves_no_pass(training: Training) -> None:
    """As in a validation with gradients on."""
    net, head, loss_fn = nn.Linear(4, 2), nn.Bilinear(4, 4, 1), nn.MSELoss()

    def step() -> None:
        training.call(loss_fn, training.call(net, X), torch.zeros(3, 2)).item()
        training.call(head, X, X).sum().backward()

    found = wasted(training, step)
    assert set(found) == {"Linear", "MSELoss"}
    assert found["Linear"].cost_s == pytest.approx(1e-3, rel=0.2)


def test_a_sample_that_another_net_is_trained_on_was_not_made_in_vain(training: Training) -> None:
    generator, critic = nn.Linear(4, 4), nn.Bilinear(4, 4, 1)

    def step() -> None:
        sample = training.call(generator, X)
        training.call(critic, sample.detach(), X).sum().backward()

    assert not wasted(training, step)


def test_tensors_without_a_storage_are_passed_over(training: Training) -> None:
    """As of torch.func's wrappers, and of sparse ones."""
    net = nn.Linear(4, 2)
    rows = torch.eye(3, 4).to_sparse()

    def step() -> None:
        torch.func.vmap(lambda x: training.call(net, x))(X)
        training.call(nn.Identity(), rows)

    assert not wasted(training, step)
