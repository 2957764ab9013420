"""NeuralODE.fit against the same training through autograd."""

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import nn, optim

from hotlap.small.native import Core, core
from hotlap.small.neural_ode import NeuralODE
from hotlap.small.solve import NativeSolveSkipped

needs_core = pytest.mark.skipif(core().module is None, reason=f"no native core: {core().why_not}")


class Field(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net: Any = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.net(y)
        return out


T = torch.linspace(0, 1, 11, dtype=torch.float64)
Y0 = torch.tensor([1.0, 0.0], dtype=torch.float64)
TARGET = torch.stack([torch.cos(3 * T), torch.sin(3 * T)], dim=-1)


@needs_core
@pytest.mark.parametrize("loss", ["sse", "mse"])
@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_fit_trains_as_autograd_and_torchs_optimizer_do(loss: str, kind: str) -> None:
    def make(model: nn.Module) -> optim.Optimizer:
        if kind == "adam":
            return optim.Adam(model.parameters(), lr=0.01)
        return optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    ours, theirs = Field().double(), Field().double()
    losses = NeuralODE(ours).fit(Y0, T, TARGET, optimizer=make(ours), loss=loss, iterations=20)  # type: ignore[arg-type]
    ode, optimizer = NeuralODE(theirs), make(theirs)
    for k in range(20):
        optimizer.zero_grad()
        squares = (ode(Y0, T) - TARGET).square()
        value = squares.sum() if loss == "sse" else squares.mean()
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        assert losses[k] == pytest.approx(float(value.detach()), rel=1e-9)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-11)


@needs_core
def test_fit_in_parts_with_a_scheduler_goes_on_where_it_was() -> None:
    whole, parts = Field().double(), Field().double()
    one = NeuralODE(whole).fit(Y0, T, TARGET, optimizer=optim.Adam(whole.parameters()), iterations=12)
    optimizer = optim.Adam(parts.parameters())
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=100)
    two = NeuralODE(parts).fit(
        Y0, T, TARGET, optimizer=optimizer, iterations=12, every=5, after=lambda k, loss: scheduler.step()
    )
    assert one == two
    assert optimizer.state[next(parts.parameters())]["step"].item() == 12


@needs_core
def test_after_can_end_the_training() -> None:
    field = Field().double()
    losses = NeuralODE(field).fit(
        Y0, T, TARGET, optimizer=optim.Adam(field.parameters()), iterations=50, every=4, after=lambda k, loss: k >= 7
    )
    assert len(losses) == 8


def test_without_the_core_fit_trains_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("neural_ode", "solve"):
        monkeypatch.setattr(f"hotlap.small.{place}.core", lambda: Core(None, "", "there is none here.", False))
    ours = Field().double()
    before = copy.deepcopy(ours)
    ode = NeuralODE(ours)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NativeSolveSkipped)
        losses = ode.fit(Y0, T, TARGET, optimizer=optim.Adam(ours.parameters()), iterations=3)
    assert ode.why_torch == "there is none here."
    assert losses[2] < losses[0]
    assert not torch.equal(before.net[0].weight, ours.net[0].weight)
