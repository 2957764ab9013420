"""Native gradients against float64 autograd, over sizes, batches, layers and losses."""

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn, optim

from hotlap.native import core
from hotlap.small import compile_step

pytestmark = pytest.mark.skipif(core().module is None, reason=f"no native core: {core().why_not}")

LAYERS: dict[str, Any] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "leaky": lambda: nn.LeakyReLU(0.2),
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "softplus": lambda: nn.Softplus(beta=2.0, threshold=3.0),
    "identity": nn.Identity,
}

LOSSES: dict[str, Any] = {
    "mse": nn.MSELoss,
    "l1": nn.L1Loss,
    "cross-entropy": nn.CrossEntropyLoss,
    "bce": nn.BCEWithLogitsLoss,
}

SIZES = st.one_of(st.integers(1, 40), st.sampled_from([48, 63, 64, 65, 100, 127, 255, 256, 257, 300]))
BATCHES = st.one_of(st.integers(1, 20), st.sampled_from([31, 32, 33, 64, 128, 129, 511, 512]))


class Skip(nn.Module):
    """A residual block, at the end of a network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.inner(x)
        return out


def target_for(name: str, rows: int, cols: int, dtype: torch.dtype) -> torch.Tensor:
    if name == "cross-entropy":
        return torch.randint(0, cols, (rows,))
    y = torch.randn(rows, cols, dtype=dtype)
    return y.sigmoid() if name == "bce" else y


@settings(max_examples=60)
@given(
    sizes=st.tuples(SIZES, SIZES, SIZES),
    rows=BATCHES,
    layer=st.sampled_from(sorted(LAYERS)),
    loss=st.sampled_from(sorted(LOSSES)),
    reduction=st.sampled_from(["mean", "sum"]),
    bias=st.booleans(),
    skip=st.booleans(),
    single=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_gradients_are_autograds(  # noqa: PLR0913, PLR0917 - each is drawn by itself
    sizes: tuple[int, int, int],
    rows: int,
    layer: str,
    loss: str,
    reduction: str,
    bias: bool,
    skip: bool,
    single: bool,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    inputs, hidden, outputs = sizes
    parts = [nn.Linear(inputs, hidden, bias=bias), LAYERS[layer](), nn.Linear(hidden, outputs)]
    model = nn.Sequential(*parts, *([Skip(outputs)] if skip else [])).double()
    criterion = LOSSES[loss](reduction=reduction)
    x, y = torch.randn(rows, inputs).double(), target_for(loss, rows, outputs, torch.float64)
    value = criterion(model(x), y)
    exact = torch.autograd.grad(value, list(model.parameters()))
    ours: Any = copy.deepcopy(model)
    if single:
        ours = ours.float()
        x = x.float()
        y = y if y.dtype == torch.int64 else y.float()
    optimizer = optim.SGD(ours.parameters(), lr=0.0, momentum=0.5)
    found = compile_step(ours, criterion, optimizer)
    loss_before = found.step(x, y)
    tolerance = 2e-4 if single else 1e-10
    for p, g in zip(ours.parameters(), exact, strict=True):
        scale = max(float(g.abs().max()), 1e-3 * float(max(e.abs().max() for e in exact)), 1e-12)
        kinked = single and (loss == "l1" or layer in ("relu", "leaky"))
        # A float32 that falls on the other side of a kink changes one element by its whole weight.
        limit = tolerance * scale if not kinked else tolerance * scale + 3.0 * scale / rows
        gradient = optimizer.state[p]["momentum_buffer"]  # the first gradient becomes it
        assert float((gradient.double() - g).abs().max()) <= limit
    assert loss_before == pytest.approx(float(value.detach()), rel=1e-4 if single else 1e-10, abs=1e-6)


OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda p: optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: optim.Adam(p, lr=0.01, weight_decay=0.1),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
}


@settings(max_examples=60)
@given(
    width=SIZES,
    inputs=SIZES,
    rows=st.one_of(st.just(0), BATCHES),
    optimizer=st.sampled_from(sorted(OPTIMIZERS)),
    form=st.sampled_from(["dense", "transposed", "every other column", "part of a row", "expanded"]),
    tied=st.booleans(),
    frozen=st.sampled_from(["nothing", "a weight", "a bias", "a layer"]),
)
def test_updates_are_torchs_for_views_and_shared_and_frozen_parameters(
    width: int, inputs: int, rows: int, optimizer: str, form: str, tied: bool, frozen: str
) -> None:
    torch.manual_seed(width + inputs)
    first, second = nn.Linear(inputs, width), nn.Linear(width, width)
    ours: Any = nn.Sequential(first, nn.Tanh(), second, nn.Sigmoid(), second if tied else nn.Linear(width, width))
    ours = ours.double()
    ours[2].weight.requires_grad_(frozen not in ("a weight", "a layer"))
    ours[2].bias.requires_grad_(frozen not in ("a bias", "a layer"))
    theirs = copy.deepcopy(ours)
    x = as_view(form, rows, inputs)
    y = as_view(form, rows, width)
    mine, other = (OPTIMIZERS[optimizer]([p for p in m.parameters() if p.requires_grad]) for m in (ours, theirs))
    step = compile_step(ours, nn.MSELoss(reduction="sum"), mine)
    for _ in range(3):
        loss = step.step(x, y)
        other.zero_grad()
        value = nn.functional.mse_loss(theirs(x), y, reduction="sum")
        value.backward()  # type: ignore[no-untyped-call]
        other.step()
        assert loss == pytest.approx(float(value.detach()), rel=1e-9, abs=1e-12)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-8, atol=1e-9)


def as_view(form: str, rows: int, cols: int) -> torch.Tensor:
    """(rows, cols) numbers that lie in memory in one of several ways."""
    if form == "transposed":
        return torch.randn(cols, rows).double().T
    if form == "every other column":
        return torch.randn(rows, 2 * cols).double()[:, ::2]
    if form == "part of a row":
        return torch.randn(rows, cols + 5).double()[:, 2 : cols + 2]
    if form == "expanded":
        return torch.randn(1, cols).double().expand(rows, cols)
    return torch.randn(rows, cols).double()


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_thousand_steps_stay_within_torchs_own_float32_spread(optimizer: str) -> None:
    def run(dtype: torch.dtype, *, native: bool, perturbation: float = 0.0) -> list[float]:
        torch.manual_seed(0)
        model: Any = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1)).to(dtype)
        with torch.no_grad():
            model[0].weight.mul_(1 + perturbation)
        steps = (
            optim.Adam(model.parameters(), lr=0.01) if optimizer == "adam" else optim.SGD(model.parameters(), lr=0.1)
        )
        x = torch.linspace(-2, 2, 128).reshape(64, 2).to(dtype)
        y = (x[:, :1] * 3).sin() * x[:, 1:]
        if native:
            step = compile_step(model, nn.MSELoss(), steps)
            return [step.step(x, y) for _ in range(1000)]
        losses = []
        for _ in range(1000):
            steps.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            steps.step()
            losses.append(float(loss.detach()))
        return losses

    exact = run(torch.float64, native=False)
    others = [run(torch.float32, native=False, perturbation=k * 1.2e-7) for k in range(3)]
    spread = max(abs(a / e - 1) for other in others for a, e in zip(other, exact, strict=True))
    ours = max(abs(a / e - 1) for a, e in zip(run(torch.float32, native=True), exact, strict=True))
    assert ours <= 3 * spread + 1e-5
