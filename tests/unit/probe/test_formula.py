"""The second opinion on an update: silent where the optimizer does what it says, loud where something else happens."""

import copy
import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from hotlap.probe.evidence import Perturbation, Updates
from hotlap.probe.formula import departures

Make = Callable[[Any], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda ps: torch.optim.SGD(ps, lr=0.1),
    "sgd, momentum": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=1e-3),
    "sgd, nesterov": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    "sgd, fused": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=1e-3, fused=True),
    "adam": lambda ps: torch.optim.Adam(ps, lr=1e-2, weight_decay=1e-2),
    "adam, foreach": lambda ps: torch.optim.Adam(ps, lr=1e-2, foreach=True),
    "adamw": lambda ps: torch.optim.AdamW(ps, lr=1e-2, betas=(0.8, 0.95)),
    "adamw, fused": lambda ps: torch.optim.AdamW(ps, lr=1e-2, weight_decay=0.1, fused=True),
    "adam, rate as a tensor": lambda ps: torch.optim.Adam(ps, lr=torch.tensor(1e-2), foreach=False),
}


def weights() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(40, 30, requires_grad=True), torch.randn(7, requires_grad=True)]


def give_gradients(params: list[torch.Tensor]) -> None:
    for p in params:
        p.grad = torch.randn_like(p)


def last_departures(optimizer: torch.optim.Optimizer, params: list[torch.Tensor], *, steps: int = 4) -> list[float]:
    """Of the last of some steps, for each parameter."""
    for _ in range(steps):
        give_gradients(params)
        departed = departures(optimizer)
        optimizer.step()
    return [departed()[id(p)] for p in params]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_does_what_its_settings_say(name: str) -> None:
    params = weights()
    assert max(last_departures(OPTIMIZERS[name](params), params)) < 1e-5


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("setting", ["lr", "weight_decay"])
def test_another_rate_or_decay_than_the_settings_say_is_seen(name: str, setting: str) -> None:
    params = weights()
    optimizer = OPTIMIZERS[name](params)
    last_departures(optimizer, params)
    give_gradients(params)
    departed = departures(optimizer)
    for group in optimizer.param_groups:
        group[setting] = group[setting] * 1.1 + (0.01 if setting == "weight_decay" else 0.0)
    optimizer.step()
    assert min(departed().values()) > 1e-4


def test_an_update_that_is_left_out_departs_by_all_of_itself() -> None:
    params = weights()
    give_gradients(params)
    departed = departures(torch.optim.AdamW(params))
    # Less what rounding alone may make of it.
    assert departed() == pytest.approx({id(p): 1.0 for p in params}, rel=1e-3)


def test_gradients_that_are_still_scaled_are_unscaled_first() -> None:
    params = weights()
    optimizer: Any = torch.optim.AdamW(params, fused=True)
    for p in params:
        p.grad = 1024 * torch.randn_like(p)
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(1024.0), torch.tensor(0.0)
    departed, updates = departures(optimizer), Updates()
    updates.before([optimizer], optimizer)
    optimizer.step()
    updates.after(0)
    norms = [float(p.grad.norm()) for p in params if p.grad is not None]  # the kernel has unscaled them
    assert sorted(map(float, updates.seen[0].gradients or ())) == pytest.approx(sorted(norms))  # type: ignore[arg-type]
    # A parameter of 1 that moves by 1e-3 is rounded to 3e-5 of that.
    assert max(departed().values()) < 1e-4


def test_of_an_optimizer_with_a_formula_of_its_own_nothing_is_said() -> None:
    params = weights()
    give_gradients(params)
    assert not departures(torch.optim.Rprop(params))()


def test_parameters_without_a_gradient_are_left_alone() -> None:
    params = weights()
    params[0].grad = torch.ones_like(params[0])
    assert list(departures(torch.optim.SGD(params, lr=0.1))()) == [id(params[0])]


def test_an_update_is_recorded_with_its_gradients_and_the_statistics_of_the_model() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    updates = Updates()
    for step in range(2):
        loss = model(torch.randn(8, 4)).square().sum() * torch.tensor([1.0])
        optimizer.zero_grad()
        loss.sum().backward()
        updates.before([optimizer], optimizer)
        optimizer.step()
        updates.stepped()
        updates.after(step)
    first, second = updates.seen
    assert first.gradients is not None and first.departures is not None and second.buffers is not None
    norms = {f"Sequential.{name}": p.grad.norm().item() for name, p in model.named_parameters() if p.grad is not None}
    assert dict(zip(updates.trained, second.gradients or (), strict=True)) == pytest.approx(norms)
    assert max(x for x in first.departures if isinstance(x, float)) < 1e-4
    moved = {name for name, x in zip(updates.untrained, second.buffers, strict=True) if isinstance(x, float) and x > 0}
    # A count of batches is no statistic.
    assert moved == {"Sequential.1.running_mean", "Sequential.1.running_var"}


def test_an_average_of_what_stands_still_has_not_moved_though_its_last_places_have() -> None:
    frozen = torch.nn.Linear(64, 32).requires_grad_(False)
    model = torch.nn.Sequential(frozen, torch.nn.Linear(32, 2))
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
    updates = Updates()
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 64)).square().mean().backward()
        updates.before([optimizer], optimizer)
        optimizer.step()
        for mine, trained in zip(average.parameters(), model.parameters(), strict=True):
            mine.mul_(0.99).add_(trained.detach(), alpha=0.01)
        updates.stepped()
        updates.after(step)
    assert not torch.equal(next(average.parameters()), frozen.weight)
    last = zip(updates.untrained, updates.seen[-1].buffers or (), strict=True)
    assert {name for name, way in last if isinstance(way, float) and way > 0} == {
        "Sequential (2 of 2).1.weight",
        "Sequential (2 of 2).1.bias",
    }


@pytest.mark.parametrize("period", [2, 3, 5, 7, 10, 16, 20, 50])
@pytest.mark.parametrize("phase", [0, -1])
def test_no_fault_that_comes_at_equal_intervals_keeps_out_of_the_way(period: int, phase: int) -> None:
    # The first two come in the steps that are looked at anyway.
    assert any(Updates.wanted(step) for step in range(2 * period + phase, 12 * max(period, 30), period))


def test_a_perturbation_moves_parameters_by_a_unit_of_their_own_or_of_bfloat16_or_else_what_takes_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed, given, unit in ((1, True, 2.0**-24), (-1, True, 2.0**-8), (1, False, 2.0**-24)):
        weights, data = torch.ones(50, requires_grad=True), torch.ones(50)
        with FakeTensorMode():  # as a compiler leaves them
            fake = torch.ones(50, requires_grad=True)
        alive: list[object] = [weights, data, fake, "what other tests leave alive is none of it"]
        monkeypatch.setattr(gc, "get_objects", lambda alive=alive: alive)
        Perturbation(seed).apply([weights] if given else [])
        moved = (weights.detach() - 1).abs()
        assert unit / 2 <= moved.max() <= 2 * unit
        assert data.eq(1).all()
