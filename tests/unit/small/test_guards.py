"""What a forward reads is watched from call to call, or the forward is left to torch."""

import types
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from hotlap.levers import Patch
from hotlap.native import core
from hotlap.small import Unsupported, compile_step
from hotlap.small.fields import compiled_for
from hotlap.small.script_steps import NativeSteps, known_steps

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


@torch.no_grad()
def decorated(x: torch.Tensor) -> torch.Tensor:
    return x * TEMP


class Net(nn.Module):
    temp = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.settings, self._temp, self.temps, self.act, self.power = Settings(), 1.0, [1.0], F.relu, 2

    def body(self, x: torch.Tensor) -> Any:
        x = self.act(self.first(x))
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.last(x)

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
    for owner, name in ((ARGS, "temp"), (Net, "temp"), (Net, "deeper")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.setitem(globals(), "TEMP", 1.0)
    monkeypatch.setitem(DICT, "temp", 1.0)
    monkeypatch.setattr(CONFIG, "temp", 1.0, raising=False)
    patch = Patch()
    known_steps().install(patch.set)
    yield known_steps()
    patch.undo()


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
    assert steps._models[id(model)].times == 2


REFUSED: dict[str, tuple[Forward, str]] = {
    "an element of a list": (lambda s, x: s.body(x) * LIST[0], r"reads LIST \(list\)"),
    "of a list of its own": (lambda s, x: s.body(x) * s.temps[0], r"reads Made.temps \(list\)"),
    "of a dataclass with a list": (lambda s, x: s.body(x) * s.settings.dims[0], "reads"),
    "arguments with a list": (lambda s, x: s.body(x) * ARGS.dims[0], r"reads ARGS.dims \(list\)"),
    "by a name": (lambda s, x: s.body(x) * getattr(ARGS, "t" + "emp"), r"reads ARGS.dims \(list\)"),
    "by vars": (lambda s, x: s.body(x) * vars(ARGS)["temp"], "reads by vars"),
    "counted": (lambda s, x: s.body(x) * count(), "changes what it reads"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_watched_is_refused_by_name(case: str) -> None:
    forward, says = REFUSED[case]
    model = net(forward)
    with pytest.raises(Unsupported, match=says):
        compile_step(model, nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1))


def count() -> float:
    ARGS.temp += 1
    return float(ARGS.temp)


class Equation:
    """An object whose attributes nobody watches."""

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
    with pytest.raises(Unsupported, match=r"reads right \(Equation\)"):
        compiled_for(Equation().right, y, "dopri5")
