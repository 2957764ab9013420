"""What a forward reads is watched from call to call, or the forward is left to torch."""

import types
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from hotlap.levers import Patch
from hotlap.native import core
from hotlap.small import Unsupported, compile_step
from hotlap.small.script_steps import NativeSteps, known_steps
from hotlap.small.solve import compiled_for

pytestmark = pytest.mark.skipif(core().module is None, reason=f"no native core: {core().why_not}")

X = torch.randn(6, 4)
TEMP = 1.0
temp = [object()]
"""A global that has the name of an attribute."""
ARGS = Namespace(temp=1.0, dims=[4, 3])
LIST, DICT = [1.0], {"temp": 1.0}
CONFIG = types.ModuleType("config")


@dataclass
class Settings:
    temp: float = 1.0
    dims: list[int] = field(default_factory=list)


def outer(x: torch.Tensor) -> torch.Tensor:
    return inner(x)


def inner(x: torch.Tensor) -> torch.Tensor:
    return x * TEMP


@torch.enable_grad()
def decorated(x: torch.Tensor) -> torch.Tensor:
    return x * TEMP


def scaled(x: torch.Tensor, temp: float) -> torch.Tensor:
    return x * temp


class Plain:
    def __init__(self) -> None:
        self.temp = 1.0

    def __mul__(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.temp

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.temp


PLAIN, OUTSIDE, RATE = Plain(), nn.Linear(3, 3), nn.Parameter(torch.ones(()))
wrapped = torch.enable_grad()(PLAIN.scaled)
frozen = torch.no_grad()(outer)
autocast = torch.autocast("cpu")(outer)


class Above(nn.Module):
    def above(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Net(Above):
    temp = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.settings, self._temp, self.temps, self.act, self.power = Settings(), 1.0, [1.0], F.relu, 2
        self.plain, self.part = Plain(), partial(scaled, temp=1.0)

    def body(self, x: torch.Tensor) -> Any:
        x = self.act(self.first(x))
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.last(x)

    def above(self, x: torch.Tensor) -> torch.Tensor:
        return 5 * x

    @classmethod
    def of_class(cls, x: torch.Tensor) -> torch.Tensor:
        return x * cls.temp

    def deep(self, x: torch.Tensor) -> torch.Tensor:
        return self.deeper(x)

    def deeper(self, x: torch.Tensor) -> torch.Tensor:
        return x * TEMP

    @property
    def twice(self) -> float:
        return 2 * self.settings.temp


Forward = Callable[[Any, Any], Any]


def net(forward: Forward) -> Any:
    return type("Made", (Net,), {"forward": forward})()


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[NativeSteps]:
    """Everything that the tests change is as it was afterwards."""
    for owner, name in ((ARGS, "temp"), (Net, "temp"), (Net, "deeper"), (Above, "above"), (PLAIN, "temp")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.setitem(globals(), "TEMP", 1.0)
    monkeypatch.setitem(globals(), "DICT", {"temp": 1.0})
    monkeypatch.setattr(CONFIG, "temp", 1.0, raising=False)
    patch = Patch()
    known_steps().install(patch.set)
    yield known_steps()
    patch.undo()


def times_traced(steps: NativeSteps, model: nn.Module) -> int:
    known = steps._models.get(model)
    return 0 if known is None else known.times


WATCHED: dict[str, tuple[Forward, Callable[[Any], object]]] = {
    "arguments": (lambda s, x: s.body(x) * ARGS.temp, lambda s: setattr(ARGS, "temp", 3.0)),
    "of an object of its own": (lambda s, x: s.body(x) * s.settings.temp, lambda s: setattr(s.settings, "temp", 3.0)),
    "by a property": (lambda s, x: s.body(x) * s.twice, lambda s: setattr(s.settings, "temp", 3.0)),
    "private": (lambda s, x: s.body(x) * s._temp, lambda s: setattr(s, "_temp", 3.0)),
    "of its class": (lambda s, x: s.body(x) * s.temp, lambda s: setattr(Net, "temp", 3.0)),
    "two methods deep": (lambda s, x: s.deep(s.body(x)), lambda s: globals().update(TEMP=3.0)),
    "two functions deep": (lambda s, x: outer(s.body(x)), lambda s: globals().update(TEMP=3.0)),
    "decorated by torch": (lambda s, x: decorated(s.body(x)), lambda s: globals().update(TEMP=3.0)),
    "inside": (lambda s, x: sum([part * TEMP for part in (s.body(x),)]), lambda s: globals().update(TEMP=3.0)),
    "a method": (lambda s, x: s.deeper(s.body(x)), lambda s: setattr(Net, "deeper", lambda self, x: 3 * x)),
    "of a dict": (lambda s, x: s.body(x) * DICT["temp"], lambda s: DICT.update(temp=3.0)),
    "of a module of Python": (lambda s, x: s.body(x) * CONFIG.temp, lambda s: setattr(CONFIG, "temp", 3.0)),
    "of any object": (lambda s, x: s.body(x) * s.plain.temp, lambda s: setattr(s.plain, "temp", 3.0)),
    "by an operator": (lambda s, x: s.plain * s.body(x), lambda s: setattr(s.plain, "temp", 3.0)),
    "by a class method": (lambda s, x: s.of_class(s.body(x)), lambda s: setattr(Net, "temp", 3.0)),
    "by a partial": (lambda s, x: s.part(s.body(x)), lambda s: s.part.keywords.update(temp=3.0)),
    "of a method that torch decorates": (lambda s, x: wrapped(s.body(x)), lambda s: setattr(PLAIN, "temp", 3.0)),
    "above": (lambda s, x: super(Net, s).above(s.body(x)), lambda s: setattr(Above, "above", lambda self, x: 3 * x)),
    "an activation": (lambda s, x: s.body(x) ** s.power, lambda s: setattr(s, "act", torch.tanh)),
}


@pytest.mark.parametrize("case", WATCHED)
def test_what_changes_between_two_calls_counts_in_the_next(case: str, steps: NativeSteps) -> None:
    forward, change = WATCHED[case]
    model = net(forward)
    for _ in range(2):
        for _ in range(2):
            out = model(X)
            assert "PassBackward" in type(out.grad_fn).__name__
            torch.testing.assert_close(out, model.forward(X), atol=1e-5, rtol=1e-5)
        change(model)
    assert times_traced(steps, model) == 2


REFUSED: dict[str, tuple[Forward, str]] = {
    "an element of a list": (lambda s, x: s.body(x) * LIST[0], r"reads LIST \(list\)"),
    "of a list of its own": (lambda s, x: s.body(x) * s.temps[0], r"reads Made.temps \(list\)"),
    "of a dataclass with a list": (lambda s, x: s.body(x) * s.settings.dims[0], "reads"),
    "arguments with a list": (lambda s, x: s.body(x) * ARGS.dims[0], r"reads ARGS.dims \(list\)"),
    "by a name": (lambda s, x: s.body(x) * getattr(ARGS, "t" + "emp"), r"reads ARGS.dims \(list\)"),
    "by vars": (lambda s, x: s.body(x) * vars(ARGS)["temp"], "reads by vars"),
    "a class": (lambda s, x: s.body(x) * Plain().temp, r"reads Plain \(type\)"),
    "a setting of torch's": (
        lambda s, x: s.body(x) * (2 if torch.is_grad_enabled() else 1),
        "reads by is_grad_enabled",
    ),
    "parts without gradients": (lambda s, x: frozen(s.body(x)) + s.body(x), "without gradients"),
    "under autocast": (lambda s, x: autocast(s.body(x)), "autocast"),
    "a layer from outside": (lambda s, x: OUTSIDE(s.body(x)), "a Linear that is no part of the module"),
    "a tensor from outside": (lambda s, x: s.body(x) * RATE, "a trained tensor that is no part of the module"),
    "numpy's random numbers": (lambda s, x: s.body(x) * np.random.rand(), "draws random numbers"),
    "drawn in vain": (
        lambda s, x: s.body(x) if x.sum() > np.random.rand() else x,
        "cannot follow",
    ),
    "counted": (lambda s, x: s.body(x) * count(), "count changes temp"),
    "counted in a dict": (lambda s, x: s.body(x) * DICT.setdefault("temp" + "s", 1.0), "changes what it reads"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_watched_is_refused_by_name(case: str) -> None:
    forward, says = REFUSED[case]
    model = net(forward)
    before, draws = set(model.state_dict()), np.random.get_state(legacy=False)["state"]["pos"]
    with pytest.raises(Unsupported, match=says):
        compile_step(model, nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1))
    assert set(model.state_dict()) == before
    assert np.random.get_state(legacy=False)["state"]["pos"] == draws


class Stack(nn.Sequential):
    """A layer of torch's, with more attributes."""


@pytest.mark.parametrize("make", [lambda: net(Net.body), lambda: Stack(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))])
def test_what_the_forward_does_not_read_may_change(make: Callable[[], Any], steps: NativeSteps) -> None:
    model = make()
    for epoch in range(20):
        model.epoch, model.last_loss, type(model).num_steps = epoch, model(X).sum(), epoch
        model.train(epoch % 2 == 0)
    assert "PassBackward" in type(model(X).grad_fn).__name__
    assert times_traced(steps, model) == 2


def added_to(constant: torch.Tensor) -> None:
    constant += 1


def moved(constant: torch.Tensor) -> None:
    constant.data = constant.data + 1


@pytest.mark.parametrize("constant", [torch.ones(3), torch.ones((), dtype=torch.float64)])
@pytest.mark.parametrize("change", [added_to, moved])
def test_a_tensor_from_outside_is_read_as_it_is(
    steps: NativeSteps, constant: torch.Tensor, change: Callable[[torch.Tensor], None]
) -> None:
    model = net(lambda s, x: s.body(x) * constant)
    before = set(vars(model))
    for _ in range(2):
        torch.testing.assert_close(model(X), model.forward(X), atol=1e-5, rtol=1e-5)
        change(constant)
    assert times_traced(steps, model) == 2
    assert set(vars(model)) == before


def count() -> float:
    ARGS.temp += 1
    return float(ARGS.temp)


def counts(net: Any, x: torch.Tensor) -> None:
    net.calls += 1


def counts_by_name(net: Any, x: torch.Tensor) -> None:
    net.seen["calls"] += 1


def averages(net: Any, x: torch.Tensor) -> None:
    """As a running mean is kept that is no buffer."""
    net.average = 0.9 * net.average + 0.1 * x.mean(0)


def averages_in_place(net: Any, x: torch.Tensor) -> None:
    net.mean.mul_(0.9).add_(0.1 * x.mean(0))


def moves(net: Any, x: torch.Tensor) -> None:
    net.mean.data = net.mean * 0.9


def fills(net: Any, x: torch.Tensor) -> None:
    torch.add(net.mean, 1.0, out=net.mean)


@pytest.mark.parametrize("also", [counts, counts_by_name, averages, averages_in_place, moves, fills])
def test_what_a_forward_does_beside_its_result_is_done_once_a_call(also: Callable[[Any, torch.Tensor], None]) -> None:
    def forward(s: Any, x: torch.Tensor) -> Any:
        s.also(s, x)
        return s.body(x)

    def done(call: Callable[[Any, torch.Tensor], object]) -> Any:
        torch.manual_seed(0)
        model = net(forward)
        model.also, model.calls, model.seen, model.average = also, 0, {"calls": 0}, torch.ones(4)
        model.register_buffer("mean", torch.ones(4))
        for _ in range(2):
            call(model, X)
        return model.calls, model.seen, model.average.tolist(), model.mean.tolist()

    assert done(Net.__call__) == done(lambda model, x: model.forward(x))


class Equation:
    temp = 1.0

    def right(self, t: torch.Tensor, y: torch.Tensor) -> Any:
        return y * self.temp


def test_a_field_is_traced_again_where_what_it_reads_has_changed() -> None:
    y, settings = torch.ones(3), Settings()

    def right(t: torch.Tensor, y: torch.Tensor) -> Any:
        return y * ARGS.temp * settings.temp

    first = compiled_for(right, y, "dopri5")
    assert compiled_for(right, y, "dopri5") is first
    for owner in (ARGS, settings):
        owner.temp = 3.0
        again = compiled_for(right, y, "dopri5")
        assert again is not first
        first = again
    equation = Equation()

    def method(t: torch.Tensor, y: torch.Tensor) -> Any:
        return equation.right(t, y)

    first = compiled_for(method, y, "dopri5")
    equation.temp = 3.0
    assert compiled_for(method, y, "dopri5") is not first
