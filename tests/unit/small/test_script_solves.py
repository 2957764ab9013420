"""native_odeint(): torchdiffeq's functions, under every name that a script has for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import nn

from hotlap.native import core
from hotlap.small.script_solves import NativeSolves, known_solves

torchdiffeq: Any = import_module("torchdiffeq")
odeint, odeint_adjoint = torchdiffeq.odeint, torchdiffeq.odeint_adjoint  # as `from torchdiffeq import` binds them

pytestmark = pytest.mark.skipif(core().module is None, reason=f"no native core: {core().why_not}")

Y0, T = torch.tensor([1.0, 0.5], dtype=torch.float64), torch.linspace(0, 1, 11, dtype=torch.float64)


@contextmanager
def installed() -> Iterator[NativeSolves]:
    solves = known_solves()
    solves.notes.clear()
    solves.install()
    try:
        yield solves
    finally:
        solves.uninstall()


class Field(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 2)).double()

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.net(y**3)
        return out


@pytest.mark.parametrize("method", ["dopri5", "rk4", "euler"])
def test_the_solution_and_its_gradient_are_torchdiffeqs(method: str) -> None:
    field = Field()
    options = {"first_step": 0.05} if method == "dopri5" else None
    found = []
    for native in (False, True):
        field.zero_grad()
        with installed() if native else contextmanager(lambda: iter([None]))():
            y = odeint(field, Y0, T, rtol=1e-5, atol=1e-7, method=method, options=options)
            assert ("_Solution" in type(y.grad_fn).__name__) == native
            y.square().sum().backward()
        found.append((y.detach(), [p.grad for p in field.parameters()]))
    torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-11)


def test_the_adjoint_is_replaced_by_the_exact_gradient() -> None:
    field = Field()
    odeint_adjoint(field, Y0, T, rtol=1e-9, atol=1e-11).square().sum().backward()
    expected = [p.grad for p in field.parameters()]
    field.zero_grad()
    with installed() as solves:
        torchdiffeq.odeint_adjoint(field, Y0, T, rtol=1e-9, atol=1e-11).square().sum().backward()
        assert solves.notes == []
    torch.testing.assert_close([p.grad for p in field.parameters()], expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"method": "dopri8"}, "dopri8"),
        ({"options": {"norm": lambda x: x.abs().max()}, "method": "dopri5"}, "norm"),
        ({"rtol": torch.tensor([1e-5, 1e-4])}, "tolerances"),
    ],
)
def test_what_is_not_known_is_left_to_torchdiffeq_and_said(given: dict[str, object], says: str) -> None:
    field = Field()
    expected = odeint(field, Y0, T, **given)
    with installed() as solves:
        got = odeint(field, Y0, T, **given)
        assert len(solves.notes) == 1
        assert says in solves.notes[0]
    assert torch.equal(got, expected)


def test_its_errors_are_those_of_torchdiffeq() -> None:
    with installed(), pytest.raises((AssertionError, ValueError, RuntimeError)):
        odeint(Field(), Y0, torch.tensor([0.0, 1.0, 0.5], dtype=torch.float64))


def test_a_function_that_is_no_module_is_refused_by_the_adjoint_as_before() -> None:
    with installed(), pytest.raises(ValueError, match=r"nn\.Module"):
        odeint_adjoint(lambda t, y: -y, Y0, T)


def test_it_is_taken_out_again() -> None:
    before = odeint.__code__, odeint_adjoint.__code__
    with installed():
        assert odeint.__code__ is not before[0]
    assert (odeint.__code__, odeint_adjoint.__code__) == before
    assert "_Solution" not in type(odeint(Field(), Y0, T).grad_fn).__name__


def test_who_watches_hears_of_each_solve_native_or_not() -> None:
    solves, heard = known_solves(), []
    field = Field()

    def around(func: Any, y0: Any, t: Any, run: Any) -> Any:
        heard.append((func, y0, t))
        return run()

    before = odeint.__code__
    solves.watch(around)
    plain = odeint(field, Y0, T, rtol=1e-5, atol=1e-7)
    with installed():
        native = odeint(field, Y0, T, rtol=1e-5, atol=1e-7)
    solves.watch(None)
    assert heard == [(field, Y0, T), (field, Y0, T)]
    torch.testing.assert_close(native, plain, rtol=1e-9, atol=1e-11)
    assert odeint.__code__ is before


def test_an_argument_that_a_later_torchdiffeq_brings_reaches_it() -> None:
    with installed(), pytest.raises(TypeError, match="later"):
        odeint(Field(), Y0, T, later=1)
