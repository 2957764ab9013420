"""Native and torch solves against torchdiffeq, SciPy, autograd and each other."""

import math
import sys
import warnings
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch import nn

from hotlap import native
from hotlap.errors import UserError
from hotlap.native import Core, core
from hotlap.small.solve import NativeSolveSkipped, SolveFailed, odeint
from hotlap.small.tableau import METHODS, TSIT5
from tests.unit.small import torch_solver

# Without the core all that is not skipped runs in torchdiffeq, and says so; whether it says so has its own tests.
pytestmark = pytest.mark.filterwarnings("ignore::hotlap.small.solve.NativeSolveSkipped")
needs_core = pytest.mark.skipif(core().module is None, reason=f"no native core: {core().why_not}")


class Field(nn.Module):
    def __init__(self, width: int = 3, hidden: int = 20) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net: Any = nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, width))

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.net(y) + torch.sin(t) * y
        return out


def stacked(*parts: torch.Tensor) -> torch.Tensor:
    return torch.stack(parts, dim=-1)


def decay(t: Any, y: Any) -> Any:
    return -y


def oscillator(t: Any, y: Any) -> Any:
    return stacked(y[..., 1], -y[..., 0])


def lotka_volterra(t: Any, y: Any) -> Any:
    a, b = y[..., 0], y[..., 1]
    return stacked(1.5 * a - a * b, a * b - 3.0 * b)


def van_der_pol(t: Any, y: Any) -> Any:
    return stacked(y[..., 1], (1 - y[..., 0] ** 2) * y[..., 1] - y[..., 0])


def lorenz(t: Any, y: Any) -> Any:
    a, b, c = y[..., 0], y[..., 1], y[..., 2]
    return stacked(10.0 * (b - a), a * (28.0 - c) - b, a * b - 8 / 3 * c)


def logistic(t: Any, y: Any) -> Any:
    return 2.0 * y * (1.0 - y)


def pendulum(t: Any, y: Any) -> Any:
    return stacked(y[..., 1], -9.81 * torch.sin(y[..., 0]) - 0.1 * y[..., 1])


def brusselator(t: Any, y: Any) -> Any:
    a, b = y[..., 0], y[..., 1]
    return stacked(1 + a**2 * b - 4 * a, 3 * a - a**2 * b)


def forced(t: Any, y: Any) -> Any:
    return torch.cos(3 * t) - 0.5 * y + t


def rober_mild(t: Any, y: Any) -> Any:
    a, b, c = y[..., 0], y[..., 1], y[..., 2]
    rate = b * c / (1 + c)
    return stacked(-0.04 * a + rate, 0.04 * a - rate - torch.sqrt(b * b + 1e-4), torch.exp(-t) * b)


PROBLEMS: dict[str, tuple[Callable[[Any, Any], Any], list[float], float]] = {
    "decay": (decay, [1.0, -2.0], 3.0),
    "oscillator": (oscillator, [1.0, 0.0], 6.0),
    "lotka-volterra": (lotka_volterra, [1.0, 1.0], 5.0),
    "van der pol": (van_der_pol, [2.0, 0.0], 5.0),
    "lorenz": (lorenz, [1.0, 0.0, 0.0], 1.0),
    "logistic": (logistic, [0.1], 4.0),
    "pendulum": (pendulum, [1.0, 0.0], 3.0),
    "brusselator": (brusselator, [1.5, 3.0], 5.0),
    "forced": (forced, [0.0], 4.0),
    "fractions": (rober_mild, [1.0, 0.1, 0.2], 2.0),
}


@needs_core
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("method", ["tsit5", "dopri5"])
def test_solutions_of_standard_problems_agree_with_scipy(name: str, method: str) -> None:
    field, start, end = PROBLEMS[name]
    t = torch.linspace(0, end, 25, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NativeSolveSkipped)  # all of them run natively
        ours = odeint(field, torch.tensor(start, dtype=torch.float64), t, rtol=1e-9, atol=1e-11, method=method)

    def right(now: float, y: np.ndarray) -> np.ndarray:
        slope: np.ndarray = field(torch.tensor(now, dtype=torch.float64), torch.from_numpy(y)).numpy()
        return slope

    exact = solve_ivp(right, (0, end), np.array(start), method="DOP853", t_eval=t.numpy(), rtol=1e-12, atol=1e-13)
    assert np.allclose(ours.numpy(), exact.y.T, rtol=2e-7, atol=2e-7)


@needs_core
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("method", ["dopri5", "rk4", "euler"])
def test_solutions_and_gradients_are_torchdiffeqs_to_rounding(name: str, method: str) -> None:
    torchdiffeq = pytest.importorskip("torchdiffeq", reason="torchdiffeq is not installed")
    field, start, end = PROBLEMS[name]
    t = torch.linspace(0, end, 40, dtype=torch.float64)
    results = []
    for solver in (odeint, torchdiffeq.odeint):
        y0 = torch.tensor(start, dtype=torch.float64, requires_grad=True)
        # With a first step given: torchdiffeq differentiates its choice of one, which is no part of the solution.
        options = {"first_step": 0.01} if METHODS[method].adaptive else {}
        y = solver(field, y0, t, rtol=1e-5, atol=1e-7, method=method, options=options)
        results.append((y.detach(), *torch.autograd.grad((y * torch.arange(40)[:, None]).sum(), y0)))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@needs_core
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_to_parameters_and_state_are_torchdiffeqs(dtype: torch.dtype) -> None:
    torchdiffeq = pytest.importorskip("torchdiffeq", reason="torchdiffeq is not installed")
    field = Field().to(dtype)
    found = []
    for solver in (odeint, torchdiffeq.odeint):
        y0 = torch.linspace(-1, 1, 6, dtype=dtype).reshape(2, 3).requires_grad_()
        t = torch.linspace(0.2, 1.7, 9, dtype=dtype)
        y = solver(field, y0, t, rtol=1e-4, atol=1e-6, method="dopri5", options={"first_step": 0.05})
        found.append(torch.autograd.grad(y.square().sum(), [y0, *field.parameters()]))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(
            ours, theirs, rtol=2e-3 if dtype == torch.float32 else 1e-9, atol=1e-4 if dtype == torch.float32 else 1e-9
        )


@needs_core
def test_gradients_to_times_are_taken_by_torchdiffeq_and_said() -> None:
    torchdiffeq = pytest.importorskip("torchdiffeq", reason="torchdiffeq is not installed")
    field, y0, found = Field(), torch.ones(3), []
    for solver in (odeint, torchdiffeq.odeint):
        t = torch.linspace(0.2, 1.7, 9).requires_grad_()
        odeint(field, y0, t.detach())  # known from here on
        if solver is odeint:
            with pytest.warns(NativeSolveSkipped, match="gradients to t"):
                y = solver(field, y0, t, rtol=1e-4)
        else:
            y = solver(field, y0, t, rtol=1e-4)
        found.append(torch.autograd.grad(y.sum(), t)[0])
    assert torch.equal(*found)


@pytest.fixture(params=[variant for variant in native.VARIANTS if native.load(variant) is not None])
def each_variant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Solves run in each of the extensions that this machine runs."""
    module = native.load(request.param)
    native._set_exchange(cast(Any, module))
    monkeypatch.setattr("hotlap.small.program.core", lambda: Core(module, request.param, ""))


@needs_core
@pytest.mark.usefixtures("each_variant")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("backwards", [False, True])
def test_the_native_and_the_torch_solver_are_the_same(method: str, backwards: bool) -> None:
    field = Field().double()
    found = []
    for solver in (odeint, torch_solver.odeint):
        y0 = torch.linspace(-1, 1, 6, dtype=torch.float64).reshape(2, 3).requires_grad_()
        t = torch.linspace(0, 1, 11, dtype=torch.float64)
        y = solver(field, y0, t.flip(0) if backwards else t, rtol=1e-5, atol=1e-7, method=method)
        found.append((y, *torch.autograd.grad(y.square().sum(), [y0, *field.parameters()])))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("method", "order"), [("tsit5", 5), ("dopri5", 5)])
def test_halving_the_step_divides_the_error_by_two_to_the_order(method: str, order: int) -> None:
    errors = []
    for h in (0.1, 0.05):
        t = torch.tensor([0.0, 2.0], dtype=torch.float64)
        y = odeint(
            oscillator,
            torch.tensor([1.0, 0.0], dtype=torch.float64),
            t,
            rtol=1.0,
            atol=1.0,
            method=method,
            options={"first_step": h, "max_step": h, "min_step": h},
        )
        errors.append(math.hypot(float(y[-1, 0]) - math.cos(2), float(y[-1, 1]) + math.sin(2)))
    # The last step ends just at t = 2, up to rounding, so the polynomial hardly takes part.
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.5)


@pytest.mark.parametrize(("method", "order"), [("rk4", 4), ("euler", 1)])
def test_fixed_steps_converge_with_their_order(method: str, order: int) -> None:
    errors = []
    for n in (21, 41):
        t = torch.linspace(0, 2, n, dtype=torch.float64)
        y = odeint(oscillator, torch.tensor([1.0, 0.0], dtype=torch.float64), t, method=method)
        errors.append(math.hypot(float(y[-1, 0]) - math.cos(2), float(y[-1, 1]) + math.sin(2)))
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.3)


def test_the_polynomial_of_tsit5_has_order_four() -> None:
    for theta in (0.1, 0.37, 0.8):
        weights = [sum(w * theta ** (p + 1) for p, w in enumerate(row)) for row in TSIT5.dense]
        for q in range(1, 5):
            moment = sum(w * c ** (q - 1) for w, c in zip(weights, TSIT5.c, strict=True))
            assert moment == pytest.approx(theta**q / q, abs=1e-12)


@needs_core
def test_a_blow_up_says_where() -> None:
    y0, t = torch.ones(1, dtype=torch.float64), torch.tensor([0.0, 2.0], dtype=torch.float64)
    with pytest.raises(SolveFailed, match=r"at t = (1|0\.99).*step size"):
        odeint(lambda t, y: y**2, y0, t)
    with pytest.raises(SolveFailed, match="max_num_steps"):
        odeint(decay, y0, t, options={"max_num_steps": 2}, method="dopri5")
    with pytest.raises(SolveFailed, match="not finite"):
        odeint(decay, y0 * float("nan"), t)


def erfinv(t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.erfinv(0.1 * y)


@needs_core
def test_an_unknown_operation_is_solved_by_torchdiffeq_and_said() -> None:
    torchdiffeq = pytest.importorskip("torchdiffeq", reason="torchdiffeq is not installed")
    y0, t = torch.ones(2), torch.linspace(0, 1, 3)
    with pytest.warns(NativeSolveSkipped, match="in torchdiffeq.*erfinv"):
        found = odeint(erfinv, y0, t, rtol=1e-5, method="dopri5", options={"first_step": 0.1})
    assert torch.equal(
        found, torchdiffeq.odeint(erfinv, y0, t, rtol=1e-5, method="dopri5", options={"first_step": 0.1})
    )


def test_without_torchdiffeq_an_unknown_operation_is_refused_with_both_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchdiffeq", None)
    monkeypatch.setattr("hotlap.small.program.core", lambda: Core(None, "", "There is no core."))
    with pytest.raises(UserError, match=r"There is no core\. .*torchdiffeq, which is not installed"):
        odeint(erfinv, torch.ones(2), torch.linspace(0, 1, 3))


def test_a_tuple_as_state_comes_back_as_one() -> None:
    pytest.importorskip("torchdiffeq", reason="torchdiffeq is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NativeSolveSkipped)
        t = torch.linspace(0, 1, 4, dtype=torch.float64)
        start = (torch.ones(2, 2, dtype=torch.float64), torch.zeros((), dtype=torch.float64))
        a, b = odeint(lambda t, y: (-y[0], y[1] * 0 + 1), start, t)
    assert a.shape == (4, 2, 2)
    assert b.shape == (4,)
    torch.testing.assert_close(b, t)


@needs_core
def test_a_constant_that_changes_between_solves_is_noticed() -> None:
    field = Field().double()
    rate = torch.tensor(1.0, dtype=torch.float64)
    scale = 1.0

    def constant(t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return rate * scale + 0 * y

    y0, t = torch.zeros(1, dtype=torch.float64), torch.tensor([0.0, 1.0], dtype=torch.float64)
    assert odeint(constant, y0, t)[-1].item() == pytest.approx(1.0)
    rate.fill_(2.0)
    assert odeint(constant, y0, t)[-1].item() == pytest.approx(2.0)
    scale = 3.0
    assert odeint(constant, y0, t)[-1].item() == pytest.approx(6.0)
    rate.data = rate.data * 2
    assert odeint(constant, y0, t)[-1].item() == pytest.approx(12.0)
    t.data = t.data * 3
    assert odeint(constant, y0, t)[-1].item() == pytest.approx(36.0)
    start, times = torch.ones(3, dtype=torch.float64), torch.linspace(0, 1, 3, dtype=torch.float64)
    before = odeint(field, start, times)
    with torch.no_grad():
        field.net[0].weight.mul_(2)
    assert not torch.equal(odeint(field, start, times), before)


@needs_core
def test_a_constant_of_inference_mode_is_left_to_torchdiffeq_and_one_that_is_not_read_is_no_matter() -> None:
    pytest.importorskip("torchdiffeq", reason="torchdiffeq is not installed")
    with torch.inference_mode():
        rate = torch.full((3,), -1.0)
    y0, t = torch.ones(3), torch.linspace(0, 1, 3)
    expected = y0 * torch.exp(-t[:, None])
    with pytest.warns(NativeSolveSkipped, match="inference mode"):
        torch.testing.assert_close(odeint(lambda t, y: rate * y, y0, t), expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NativeSolveSkipped)
        torch.testing.assert_close(odeint(lambda t, y: -y if rate is not None else y, y0, t), expected)


@needs_core
def test_under_autocast_and_with_a_dimension_more_it_is_left_to_torchdiffeq() -> None:
    torchdiffeq = pytest.importorskip("torchdiffeq", reason="torchdiffeq is not installed")
    field, y0, t = Field(), torch.ones(3), torch.linspace(0, 1, 3)
    odeint(field, y0, t)  # known from here on
    with torch.autocast("cpu"), pytest.warns(NativeSolveSkipped, match="autocast"):
        found = odeint(field, y0, t, rtol=1e-4)
    with torch.autocast("cpu"):
        assert torch.equal(found, torchdiffeq.odeint(field, y0, t, rtol=1e-4))
    row = torch.tensor([[1.0, 2.0, 3.0]])
    with pytest.warns(NativeSolveSkipped, match="shape"):
        odeint(lambda t, y: -y * row, y0, t)


@needs_core
def test_several_solutions_keep_what_their_gradients_need() -> None:
    field = Field().double()
    t = torch.linspace(0, 1, 5, dtype=torch.float64)
    starts = [torch.full((3,), float(k), dtype=torch.float64, requires_grad=True) for k in range(3)]
    together = torch.autograd.grad(sum(odeint(field, y, t).sum() for y in starts), starts)
    for y, gradient in zip(starts, together, strict=True):
        (alone,) = torch.autograd.grad(odeint(field, y, t).sum(), y)
        torch.testing.assert_close(gradient, alone, rtol=1e-12, atol=0)


def added_to(p: torch.Tensor) -> None:
    with torch.no_grad():
        p.add_(1)


def moved(p: torch.Tensor) -> None:
    """To other memory: what it had is free, and may be another tensor's by the time of the backward pass."""
    p.data = p.data + 1


@needs_core
@pytest.mark.parametrize("change", [added_to, moved])
def test_a_parameter_changed_before_the_backward_pass_is_an_error(change: Callable[[torch.Tensor], None]) -> None:
    field = Field()
    loss = odeint(field, torch.ones(3), torch.linspace(0, 1, 3)).sum()
    change(field.net[0].weight)
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


class Short(nn.Module):
    """Layer, tanh, layer: of one row the native core makes one pass."""

    def __init__(self, width: int, hidden: int, *, bias: bool) -> None:
        super().__init__()
        torch.manual_seed(width * 1000 + hidden)
        self.net = nn.Sequential(nn.Linear(width, hidden, bias=bias), nn.Tanh(), nn.Linear(hidden, width, bias=bias))

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.net(y)
        return out


# In float32 with fixed steps only: rounding decides how long an adaptive step is, and with it the result's last digits.
@needs_core
@pytest.mark.usefixtures("each_variant")
@pytest.mark.parametrize(
    ("method", "dtype"),
    [
        ("tsit5", torch.float64),
        ("dopri5", torch.float64),
        ("rk4", torch.float64),
        ("rk4", torch.float32),
        ("euler", torch.float32),
    ],
)
@pytest.mark.parametrize(
    ("width", "hidden", "bias"),
    [(1, 1, True), (1, 40, False), (2, 16, True), (3, 100, True), (4, 5, False), (5, 33, True)],
)
def test_one_row_alone_is_solved_as_two_that_are_the_same(
    width: int, hidden: int, bias: bool, method: str, dtype: torch.dtype
) -> None:
    field = Short(width, hidden, bias=bias).to(dtype)
    t = torch.linspace(0, 1, 9, dtype=dtype)
    found = []
    for rows in (1, 2):
        y0 = torch.linspace(-1, 2, width, dtype=dtype).repeat(rows, 1).requires_grad_()
        y = odeint(field, y0, t, rtol=1e-4, atol=1e-6, method=method)
        gradients = torch.autograd.grad(y.square().sum() / rows, [y0, *field.parameters()])
        found.append((y[:, 0].detach(), gradients[0].sum(0), *gradients[1:]))
    near = 2e-5 if dtype == torch.float32 else 1e-9
    for alone, together in zip(*found, strict=True):
        torch.testing.assert_close(alone, together, rtol=near, atol=near * float(together.abs().max()))


@needs_core
def test_a_state_that_outlived_a_transform_is_one_as_any_other() -> None:
    kept = []

    def keep(x: torch.Tensor) -> torch.Tensor:
        kept.append(x.clone())
        return x

    torch.func.grad(lambda x: keep(x).sum())(torch.ones(3))
    field, t = Field(), torch.linspace(0, 1, 3)
    for _ in range(2):  # the second time the field is known
        assert torch.equal(odeint(field, kept[0], t), odeint(field, torch.ones(3), t))


@needs_core
def test_tolerances_of_each_variables_own_are_left_to_torchdiffeq() -> None:
    torchdiffeq = pytest.importorskip("torchdiffeq", reason="torchdiffeq is not installed")
    y0, t, rtol = torch.ones(3), torch.linspace(0, 1, 3), torch.tensor([1e-3, 1e-4, 1e-5])
    with pytest.warns(NativeSolveSkipped, match="not one number each"):
        found = odeint(decay, y0, t, rtol=rtol)
    assert torch.equal(found, torchdiffeq.odeint(decay, y0, t, rtol=rtol))
    assert torch.equal(odeint(decay, y0, t, options={"max_num_steps": math.inf}), odeint(decay, y0, t))


@needs_core
def test_states_and_times_may_be_made_in_inference_mode() -> None:
    field = Field()
    with torch.inference_mode():
        found = [odeint(field, torch.ones(3), torch.linspace(0, end, 3)) for end in (1.0, 2.0)]
    for end, one in zip((1.0, 2.0), found, strict=True):
        assert torch.equal(one, odeint(field, torch.ones(3), torch.linspace(0, end, 3)).detach())


@needs_core
def test_a_slope_at_the_end_of_fixed_steps_need_not_be_finite() -> None:
    y0, rate = torch.zeros(1, requires_grad=True), torch.ones(1, requires_grad=True)
    y = odeint(lambda t, y: rate / torch.sqrt(1 - t) - y, y0, torch.linspace(0, 1, 5), method="euler")
    gradients = torch.autograd.grad(y[-1].sum(), [y0, rate])
    assert float(gradients[0]) == pytest.approx(0.75**4)
    last = sum(0.25 * 0.75 ** (3 - k) / (1 - k / 4) ** 0.5 for k in range(4))
    assert float(gradients[1]) == pytest.approx(last)
    assert float(y[-1].detach()) == pytest.approx(last)


@needs_core
def test_within_a_transform_it_is_refused_by_torch() -> None:
    field, t = Field(), torch.linspace(0, 1, 3)
    odeint(field, torch.ones(3), t)
    with pytest.raises(RuntimeError, match="functorch transforms"):
        torch.func.grad(lambda y: odeint(field, y, t).sum())(torch.ones(3))


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"method": "radau"}, "radau"),
        ({"method": "dopri5", "options": {"steps": 3}}, "steps"),
        ({"options": {"controller": "pi"}}, "controller"),
        ({"method": "rk4", "options": {"step_size": 0.0}}, "step_size is 0.0; it has to be above 0"),
    ],
)
def test_unknown_settings_are_named(arguments: dict[str, Any], word: str) -> None:
    with pytest.raises(UserError, match=word):
        odeint(decay, torch.ones(1), torch.tensor([0.0, 1.0]), **arguments)


@pytest.mark.parametrize(
    ("y0", "word"), [([1.0], "y0 has to be a tensor; it is list"), (torch.ones(1).long(), "y0 has")]
)
def test_a_state_of_another_kind_is_named(y0: Any, word: str) -> None:
    with pytest.raises(UserError, match=word):
        odeint(decay, y0, torch.tensor([0.0, 1.0]))


def test_times_have_to_be_in_order() -> None:
    with pytest.raises(UserError, match="strictly"):
        odeint(decay, torch.ones(1), torch.tensor([0.0, 1.0, 0.5]))
