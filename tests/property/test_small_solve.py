"""Native solves and their gradients against the same solver over torch operators, over sizes, rows, layers, methods."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from hotlap.native import core
from hotlap.small.solve import odeint
from hotlap.small.tableau import METHODS
from tests.unit.small import torch_solver

pytestmark = [
    pytest.mark.skipif(core().module is None, reason=f"no native core: {core().why_not}"),
    pytest.mark.filterwarnings("error::hotlap.small.solve.NativeSolveSkipped"),
]

LAYERS: dict[str, Any] = {"tanh": nn.Tanh, "relu": nn.ReLU, "sigmoid": nn.Sigmoid, "silu": nn.SiLU}
STATES = st.one_of(st.integers(1, 9), st.sampled_from([15, 16, 17, 33]))
HIDDEN = st.one_of(st.integers(1, 20), st.sampled_from([31, 32, 33, 64, 100, 300]))
ULP = torch.finfo(torch.float64).eps


class Field(nn.Module):
    def __init__(self, width: int, hidden: tuple[int, ...], layer: str, *, bias: bool, timed: bool) -> None:
        super().__init__()
        sizes = (width, *hidden, width)
        parts: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            parts += [nn.Linear(inputs, outputs, bias=bias), LAYERS[layer]()]
        self.net = nn.Sequential(*parts[:-1])
        self.timed = timed

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.net(y)
        return out + torch.sin(t) * y if self.timed else out


@settings(max_examples=60)
@given(
    width=STATES,
    hidden=st.one_of(st.tuples(HIDDEN), st.tuples(HIDDEN, HIDDEN)),
    rows=st.one_of(st.none(), st.integers(1, 5), st.sampled_from([17, 40])),
    layer=st.sampled_from(sorted(LAYERS)),
    method=st.sampled_from(sorted(METHODS)),
    num_times=st.sampled_from([2, 3, 8, 40]),
    bias=st.booleans(),
    timed=st.booleans(),
    backwards=st.booleans(),
)
def test_solutions_and_gradients_are_those_of_the_torch_solver(  # noqa: PLR0913, PLR0917 - each is drawn by itself
    width: int,
    hidden: tuple[int, ...],
    rows: int | None,
    layer: str,
    method: str,
    num_times: int,
    bias: bool,
    timed: bool,
    backwards: bool,
) -> None:
    torch.manual_seed(width * 1000 + hidden[0])
    field = Field(width, hidden, layer, bias=bias, timed=timed).double()
    start = (torch.randn(width) if rows is None else torch.randn(rows, width)).double()
    t = torch.linspace(0.1, 1.1, num_times, dtype=torch.float64)

    def solved(solver: Any, start: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y0 = start.clone().requires_grad_()
        y = solver(field, y0, t.flip(0) if backwards else t, rtol=1e-5, atol=1e-7, method=method)
        return y.detach(), *torch.autograd.grad(y.square().sum(), [y0, *field.parameters()])

    ours, theirs = solved(odeint, start), solved(torch_solver.odeint, start)
    allowed = [1e-9 * max(float(one.abs().max()), 1.0) for one in theirs]
    if any(far > most for far, most in zip(_far(ours, theirs), allowed, strict=True)):
        # Where a field has kinks, one unit in the last place of the start moves its steps, and a gradient, by more.
        moved = [_far(solved(torch_solver.odeint, start * (1 + sign * ULP)), theirs) for sign in (-1, 1)]
        allowed = [max(most, *by) for most, *by in zip(allowed, *moved, strict=True)]
    for far, most in zip(_far(ours, theirs), allowed, strict=True):
        assert far <= most


def _far(found: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> list[float]:
    return [float((one - other).abs().max()) for one, other in zip(found, wanted, strict=True)]
