"""The native exp, tanh and log against the same functions in higher precision."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from hotlap.native import core
from hotlap.small.program import Op, Program
from hotlap.small.program import native as native_classes

pytestmark = pytest.mark.skipif(core().module is None, reason=f"no native core: {core().why_not}")


def native(name: str, x: torch.Tensor) -> torch.Tensor:
    """One function over all of `x`, as a network of nothing else."""
    program = Program(x.dtype)
    program.input = program.value(x.numel())
    program.output = program.emit(Op[name.upper()], cols=x.numel(), a=program.input, f0=1.0, f1=100.0)
    y = torch.empty_like(x)
    native_classes(x.dtype).Net(program.description(), False).forward(x.data_ptr(), 1, y.data_ptr())
    return y


def ulps(got: torch.Tensor, exact: np.ndarray) -> float:
    """The largest error in units in the last place of float32."""
    spacing = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    return float(np.max(np.abs(got.numpy().astype(np.float64) - exact) / spacing))


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "exp": (np.exp, -87.0, 88.0),
    "tanh": (np.tanh, -12.0, 12.0),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -80.0, 80.0),
    "softplus": (lambda x: np.logaddexp(0.0, x), -80.0, 80.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_is_within_two_and_a_half_units_in_the_last_place(name: str) -> None:
    exact, low, high = FUNCTIONS[name]
    wide = torch.linspace(low, high, 200_003)
    near_zero = torch.linspace(max(low, -1.0), min(high, 1.0), 100_003)
    small = torch.logspace(-30, 0, 20_001) * (1.0 if high > 0 else -1.0)
    x = torch.cat([wide, near_zero, small])
    assert ulps(native(name, x), exact(x.numpy().astype(np.float64))) <= 2.5


def test_logarithm_is_within_two_units_in_the_last_place() -> None:
    x = torch.cat([torch.logspace(-38, 38, 200_003), torch.linspace(0.5, 2.0, 100_003)])
    exact = np.log(x.numpy().astype(np.float64))
    keep = exact != 0
    assert ulps(native("log", x)[torch.from_numpy(keep)], exact[keep]) <= 2.0
    assert native("log", torch.ones(1)).item() == 0.0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64_is_right_to_a_few_units(name: str) -> None:
    exact, low, high = FUNCTIONS[name]
    x = torch.linspace(max(low, -40), min(high, 40), 20_001, dtype=torch.float64)
    expected = exact(x.numpy())
    assert np.allclose(native(name, x).numpy(), expected, rtol=4e-15, atol=1e-300)


@pytest.mark.parametrize("name", [*FUNCTIONS, "log"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nan_stays_nan(name: str, dtype: torch.dtype) -> None:
    assert bool(native(name, torch.full((37,), float("nan"), dtype=dtype)).isnan().all())


def test_limits_are_those_of_the_c_library() -> None:
    inf = float("inf")
    x = torch.tensor([inf, -inf, 0.0, 100.0, -100.0, -103.0])
    assert torch.equal(native("tanh", x).sign(), torch.tensor([1.0, -1.0, 0.0, 1.0, -1.0, -1.0]))
    assert torch.allclose(native("exp", x), x.exp(), rtol=1e-6, atol=2e-45)
    assert native("sigmoid", x).tolist()[:3] == [1.0, 0.0, 0.5]
    assert native("log", torch.tensor([0.0, inf])).tolist() == [-inf, inf]
    assert native("log", torch.tensor([-1.0])).isnan().item()
    assert torch.copysign(torch.ones(1), native("tanh", torch.tensor([-0.0]))).item() == -1.0
