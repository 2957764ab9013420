"""The hooks themselves, in a process that trains a little: what they write, and that it stays short."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from hotlap.levers import Patch
from hotlap.probe import clock as phases
from hotlap.probe import hooks
from hotlap.probe.session import Session
from hotlap.record import Plan


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Heard from now on."""
    session = Session(Plan(command=("train.py",), cwd=".", out=str(tmp_path), steps=10**8, warmup=0))
    patch = Patch()
    hooks.install(session, patch)
    yield session
    patch.undo()


def loader(num_batches: int) -> "DataLoader[tuple[torch.Tensor, ...]]":
    return DataLoader(TensorDataset(torch.ones(3 * num_batches, 2)), batch_size=3)


def steps(model: torch.nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    for (x,) in loader(number):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()


def test_each_step_is_counted_with_all_that_it_brought(session: Session) -> None:
    model = torch.nn.Linear(2, 1)
    steps(model, torch.optim.SGD(model.parameters(), lr=0.1), 7)
    assert session.steps == session.updates_made == 7
    assert session._progress.steps == 7
    session.account(now=session.clock.now())
    rows = session.ledger._rows
    assert [row.num_samples for row in rows] == [3] * 7
    assert all(len(row.losses) == 1 and row.num_updates == 1 for row in rows)


def test_an_optimizer_takes_the_place_of_one_that_was_dropped(session: Session) -> None:
    model = torch.nn.Linear(2, 1)
    for _ in range(3):  # each may get the address of the one before
        steps(model, torch.optim.Adam(model.parameters()), 4)
    assert session.steps == 12


def test_two_optimizers_make_a_step_together(session: Session) -> None:
    model = torch.nn.Linear(2, 1)
    one, other = (torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters())
    for (x,) in loader(10):
        model(x).sum().backward()
        one.step()
        other.step()
    assert session.steps in (9, 10), "the cycle is learned from the first round"


def test_an_evaluation_of_hours_is_read_as_it_goes_on(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "MOST_UNREAD", 60)
    longest = 0
    for _ in loader(200):
        longest = max(longest, len(session.clock.tape))
    assert 50 < longest <= 66
