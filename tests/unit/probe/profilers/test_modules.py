"""Forward passes in vain: told by the gradients that never come."""

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import torch
from torch import nn

from hotlap.levers.lever import Patch
from hotlap.probe.profilers.modules import Modules
from hotlap.probe.session import Session
from hotlap.record import Sighting, SightingKind
from tests.unit.probe.profilers.stage import Stage

X = torch.ones(3, 4)


class Training(Stage):
    """Steps that are counted, and passes that take a millisecond each."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.profiler = Modules()

    def call(self, module: nn.Module, *args: Any) -> Any:
        result = module(*args)
        self.script.on_forward[0](module, args, {}, result)
        return result


@pytest.fixture
def training() -> Iterator[Training]:
    stage, patch = Training(), Patch()
    stage.profiler.install(cast(Session, stage), patch)
    yield stage
    patch.undo()


def wasted(training: Training, step: Any, *, steps: int = 30) -> dict[str, Sighting]:
    for _ in range(steps):
        step()
        training.steps += 1
    return {one.what: one for one in training.profiler.fields()["sightings"]}


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


def test_a_line_that_others_train_on_is_told_by_its_caller(training: Training) -> None:
    """A helper that makes the passes for the loss and for a metric."""
    net = nn.Linear(4, 2)

    def predict() -> torch.Tensor:
        return training.call(net, X)  # type: ignore[no-any-return]

    def step() -> None:
        predict().sum().backward()  # type: ignore[no-untyped-call]
        predict().argmax(1)  # a metric

    (one,) = wasted(training, step).values()
    assert one.text == "predict().argmax(1)  # a metric"
    assert one.detail["col"] == 8 and one.detail["end_col"] == 17, "the call of the helper alone"


def test_a_line_of_which_some_passes_are_trained_on_has_no_call_to_change(training: Training) -> None:
    net = nn.Linear(4, 2)

    def step() -> None:
        for is_trained in (True, False):
            out = training.call(net, X)
            if is_trained:
                out.sum().backward()

    (one,) = wasted(training, step).values()
    assert "col" not in one.detail


def test_what_follows_each_update_happens_once_a_step(training: Training) -> None:
    """The first step has no update behind it."""
    net = nn.Linear(4, 2)

    def step() -> None:
        if training.steps:
            training.call(net, X).argmax(1)
        training.call(net, X).sum().backward()

    (one,) = wasted(training, step, steps=300).values()
    assert one.per_step == 1


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


@pytest.mark.parametrize(
    ("given", "single"),
    [
        (lambda i: X[i : i + 1], True),
        (lambda i: X[i], True),
        (lambda i: X, False),
        (lambda i: X[i : i + 1].detach().requires_grad_(), True),
    ],
    ids=["one row", "a sample without a batch", "a batch", "a sample whose gradient is wanted"],
)
def test_passes_of_one_sample_each_are_told_with_their_line(
    training: Training, given: Callable[[int], torch.Tensor], single: bool
) -> None:
    net = nn.Linear(4, 2)

    def step() -> None:
        sum(training.call(net, given(i)).sum() for i in range(3)).backward()

    seen = wasted(training, step)
    assert bool(seen) is single
    if single:
        assert (seen["Linear"].kind, seen["Linear"].per_step) == (SightingKind.SINGLE, 3.0)
        assert seen["Linear"].line is not None


def test_samples_that_may_follow_from_one_another_are_told_only_where_a_loader_gave_them(training: Training) -> None:
    """As what an agent observes: tensors of their own, or rows of one that is written to before each pass."""
    net, other = nn.Linear(4, 2), nn.Bilinear(4, 4, 1)
    rows = torch.zeros(4, 4)

    def step() -> None:
        for i in range(3):
            training.call(net, X[i].clone()).sum().backward()
            training.call(other, rows[i], rows[i]).sum().backward()
            rows[i + 1] = i

    assert not wasted(training, step)
    training.script.on_batch[0](None, X)
    assert set(wasted(training, step)) == {"Linear", "Bilinear"}


def test_a_state_that_goes_from_pass_to_pass_makes_no_samples_of_their_own(training: Training) -> None:
    """A recurrent cell in a loop over time, with one sequence."""
    cell = nn.RNNCell(4, 4)

    def step() -> None:
        state = torch.zeros(1, 4)
        for moment in X:
            state = training.call(cell, moment[None], state)
        state.sum().backward()  # type: ignore[no-untyped-call]

    assert not wasted(training, step)


def test_what_takes_the_result_of_another_pass_is_no_sample_of_its_own(training: Training) -> None:
    first, second = nn.Linear(4, 3), nn.Linear(3, 2)

    def step() -> None:
        training.script.on_batch[0](None, X)
        training.call(second, training.call(first, X[:1])).sum().backward()

    assert {name: seen.per_step for name, seen in wasted(training, step).items()} == {"Linear": 1.0}
