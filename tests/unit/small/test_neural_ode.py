"""NeuralODE.fit against the same training through autograd."""

import copy
import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn, optim

from hotlap.errors import UserError
from hotlap.native import Core, core
from hotlap.small.neural_ode import NeuralODE
from hotlap.small.solve import NativeSolveSkipped, odeint

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


def rate(optimizer: optim.Optimizer) -> None:
    optimizer.param_groups[0]["lr"] *= 10


def flag(optimizer: optim.Optimizer) -> None:
    optimizer.param_groups[0]["maximize"] = True


def load(optimizer: optim.Optimizer) -> None:
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def forget(optimizer: optim.Optimizer) -> None:
    optimizer.state.clear()


def move(optimizer: optim.Optimizer) -> None:
    for state in optimizer.state.values():
        for value in filter(torch.is_tensor, state.values()):
            value.data = value.data.clone()


@needs_core
@pytest.mark.parametrize("kind", ["adam", "sgd"])
@pytest.mark.parametrize("change", [rate, flag, load, forget, move])
def test_what_changes_of_an_optimizer_between_two_calls_counts_in_the_next(
    kind: str, change: Callable[[optim.Optimizer], None]
) -> None:
    trained = []
    for anew in (True, False):
        field = Field().double()
        sgd = optim.SGD(field.parameters(), lr=1e-3, momentum=0.9)
        optimizer = optim.Adam(field.parameters(), lr=0.01) if kind == "adam" else sgd
        ode = NeuralODE(field)
        losses = []
        for k in range(9):
            if k == 4:
                change(optimizer)
            losses += (NeuralODE(field) if anew else ode).fit(Y0, T, TARGET, optimizer=optimizer)
        trained.append(losses)
    assert trained[0] == trained[1]


@needs_core
@pytest.mark.parametrize("hook", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_hook_of_a_tensor_that_a_function_reads_is_called(hook: str) -> None:
    rate, called = nn.Parameter(torch.zeros(2, 2, dtype=torch.float64)), []
    ode, optimizer = NeuralODE(lambda t, y: nn.functional.linear(y, rate)), optim.SGD([rate], lr=0.1)
    ode.fit(Y0, T, TARGET, optimizer=optimizer)
    handle = getattr(rate, hook)(lambda *_: called.append(1))
    with pytest.warns(NativeSolveSkipped, match="rate has a gradient hook"):
        ode.fit(Y0, T, TARGET, optimizer=optimizer)
    handle.remove()
    ode.fit(Y0, T, TARGET, optimizer=optimizer)
    assert (called, ode.why_torch) == ([1], "")


@needs_core
def test_what_was_trained_is_copied_and_goes_on_by_itself() -> None:
    ode = NeuralODE(Field().double())
    ode.fit(Y0, T, TARGET, optimizer=optim.Adam(ode.func.parameters()))  # type: ignore[attr-defined]
    other = copy.deepcopy(ode)
    first, second = (
        one.fit(Y0, T, TARGET, optimizer=optim.Adam(one.func.parameters()), iterations=3)  # type: ignore[attr-defined]
        for one in (ode, other)
    )
    assert first == second


@needs_core
def test_an_optimizer_is_let_go_with_its_field() -> None:
    field = Field().double()
    optimizer = optim.Adam(field.parameters())
    NeuralODE(field).fit(Y0, T, TARGET, optimizer=optimizer, iterations=2)
    left = weakref.ref(optimizer)
    del field, optimizer
    gc.collect()
    assert left() is None


@needs_core
def test_after_can_end_the_training() -> None:
    field = Field().double()
    losses = NeuralODE(field).fit(
        Y0, T, TARGET, optimizer=optim.Adam(field.parameters()), iterations=50, every=4, after=lambda k, loss: k >= 7
    )
    assert len(losses) == 8


def test_without_the_core_fit_trains_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotlap.small.program.core", lambda: Core(None, "", "there is none here."))
    ours = Field().double()
    before = copy.deepcopy(ours)
    ode = NeuralODE(ours)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NativeSolveSkipped)
        losses = ode.fit(Y0, T, TARGET, optimizer=optim.Adam(ours.parameters()), iterations=3)
    assert ode.why_torch == "there is none here."
    assert losses[2] < losses[0]
    assert not torch.equal(before.net[0].weight, ours.net[0].weight)


class Mish(nn.Module):
    """Of a layer that the native core does not know, so it is solved over torch operators."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net: Any = nn.Sequential(nn.Linear(2, 8), nn.Mish(), nn.Linear(8, 2))

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.net(y)
        return out


@pytest.mark.filterwarnings("ignore::hotlap.small.solve.NativeSolveSkipped")
@pytest.mark.parametrize("kind", [pytest.param(Field, marks=needs_core), Mish])
def test_a_module_of_y_alone_gives_the_values_gradients_and_training_of_one_of_t_and_y(kind: type[Any]) -> None:
    timed, alone = kind().double(), kind().double().net
    solutions = []
    for func in (timed, alone):
        y0, ode = Y0.clone().requires_grad_(), NeuralODE(func)
        solution = ode(y0, T)
        solution.square().sum().backward()  # type: ignore[no-untyped-call]
        gradients = [p.grad.clone() for p in func.parameters()]
        func.zero_grad()
        losses = ode.fit(Y0, T, TARGET, optimizer=optim.Adam(func.parameters(), lr=0.01), iterations=3)
        assert (ode.why_torch == "") == (kind is Field)  # each way of solving was at work
        solutions.append((solution, y0.grad, *gradients, torch.tensor(losses), *func.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(*solutions, strict=True))
    assert float(solutions[0][2].abs().max()) > 0


def test_an_argument_that_may_be_left_out_is_a_constant() -> None:
    rate = NeuralODE(lambda y, rate=-2.0: rate * y)(Y0, T)
    torch.testing.assert_close(rate[-1], Y0 * torch.exp(-2 * T[-1]), rtol=1e-3, atol=1e-6)
    with pytest.raises(UserError, match=r"takes \(t, y\) or y alone, but .* takes \(y=None\)"):
        NeuralODE(lambda y=None: y)


def test_what_can_be_called_neither_way_is_refused_with_the_reason() -> None:
    with pytest.raises(UserError, match=r"takes \(t, y\) or y alone, but .* takes \(a, b, c\)"):
        NeuralODE(lambda a, b, c: a)
    for unclear in (lambda *args: args[-1], torch.neg):
        with pytest.raises(UserError, match=r"\(t, y\) or y alone, its signature does not say: wrap it"):
            NeuralODE(unclear)


def test_odeint_keeps_torchdiffeqs_call_and_says_so() -> None:
    with pytest.raises(UserError, match=r"odeint calls func\(t, y\).* but Sequential takes \(input.*NeuralODE"):
        odeint(Field().double().net, Y0, T)


@needs_core
@pytest.mark.parametrize("turned", [False, True])
def test_trajectories_at_irregular_times_train_natively_as_through_autograd(turned: bool) -> None:
    times = torch.tensor([0.0, 0.01, 0.4, 0.43, 1.5], dtype=torch.float64)
    t = times.flip(0) if turned else times
    starts = torch.tensor([[1.0, 0.0], [0.3, -0.7], [-2.0, 0.5]], dtype=torch.float64)
    target = torch.cos(t)[:, None, None] * starts
    ours, theirs = Field().double().net, Field().double().net
    ode = NeuralODE(ours)
    losses = ode.fit(starts, t, target, optimizer=optim.Adam(ours.parameters(), lr=0.01), iterations=5)
    assert ode.why_torch == ""
    optimizer = optim.Adam(theirs.parameters(), lr=0.01)
    for loss in losses:
        optimizer.zero_grad()
        value = (NeuralODE(theirs)(starts, t) - target).square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        assert loss == pytest.approx(float(value.detach()), rel=1e-9)


def test_a_field_with_a_dropout_that_is_on_is_left_to_torch_with_its_draws() -> None:
    net = nn.Sequential(nn.Linear(2, 32), nn.Dropout(0.5), nn.Linear(32, 2)).double()
    ode = NeuralODE(net, method="rk4")
    with pytest.warns(NativeSolveSkipped, match=r"dropout"):
        losses = ode.fit(Y0, T, TARGET, optimizer=optim.SGD(net.parameters(), lr=0.0), iterations=2)
    assert losses[0] != losses[1]
    net.eval()
    losses = ode.fit(Y0, T, TARGET, optimizer=optim.SGD(net.parameters(), lr=0.0), iterations=2)
    assert losses[0] == losses[1]


@pytest.mark.filterwarnings("ignore::hotlap.small.solve.NativeSolveSkipped")
def test_fit_refuses_what_it_cannot_take_in_one_sentence() -> None:
    net = Field().double().net
    ode, adam = NeuralODE(net), optim.Adam(net.parameters())
    wrong: list[tuple[Any, Any, optim.Optimizer, str]] = [
        (Y0, T.tolist(), adam, "t has to be a tensor; it is list"),
        (Y0.numpy(), T, adam, "y0 has to be a tensor; it is ndarray"),
        (Y0, torch.stack([T, T], 1), adam, "one sequence of times is expected, the same for all trajectories"),
        (Y0, T.flip(0)[[0, 2, 1]], adam, "strictly increasing or strictly decreasing"),
        (Y0, T, optim.LBFGS(net.parameters()), "LBFGS, which asks for a closure"),
    ]
    for y0, t, optimizer, reason in wrong:
        with pytest.raises(UserError, match=reason):
            ode.fit(y0, t, TARGET[: len(t)], optimizer=optimizer)
    with pytest.raises(UserError, match="every is 0; it has to be at least 1"):
        ode.fit(Y0, T, TARGET, optimizer=adam, after=lambda *_: None, every=0)
