"""F4's job in torch, with whatever solver and optimizer, and in JAX with diffrax: what ode.py times."""

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import nn

from hotlap.small import odeint

RATE = 0.01
RTOL, ATOL = 1e-3, 1e-6

Fit = Callable[[int], list[float]]
"""Makes so many iterations more; the loss before each update."""


class Field(nn.Module):
    """dy/dt = net(y)."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(3, 100), nn.Tanh(), nn.Linear(100, 3))

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The change at `y`, whatever `t`."""
        out: torch.Tensor = self.net(y)
        return out


def lorenz(t: Any, u: Any) -> Any:
    """The true system."""
    x, y, z = u[..., 0], u[..., 1], u[..., 2]
    return torch.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8 / 3 * z], dim=-1)


class Job:
    """What all of them do."""

    def __init__(self, device: str, *, rate: float = RATE, fused: bool | None = None) -> None:
        y0, t = torch.tensor([1.0, 0.0, 0.0]), torch.linspace(0, 1, 101)
        target = odeint(lorenz, y0.double(), t.double(), rtol=1e-9, atol=1e-11).float()
        self.y0, self.t, self.target = (one.to(device) for one in (y0, t, target))
        self.field = Field().to(device)
        self.optimizer = torch.optim.Adam(self.field.parameters(), lr=rate, fused=fused)

    def loop(self, solve: Any, method: str) -> Fit:
        """The training loop that a script has."""
        losses: list[torch.Tensor] = []

        def fit(iterations: int) -> list[float]:
            losses.clear()
            for _ in range(iterations):
                self.optimizer.zero_grad()
                found = solve(self.field, self.y0, self.t, rtol=RTOL, atol=ATOL, method=method)
                loss = (found - self.target).square().sum()
                loss.backward()
                self.optimizer.step()
                losses.append(loss.detach())
            return [float(loss) for loss in losses]

        return fit


def in_diffrax(job: Job, *, rate: float = RATE, scanned: int = 0) -> Fit:
    """The same training in JAX, each iteration one compiled call; with `scanned` so many in one call."""
    # Where a GPU is there JAX would take it; this is the CPU's row.
    os.environ["JAX_PLATFORMS"] = "cpu"
    names = ("diffrax", "jax", "jax.numpy", "optax")
    diffrax, jax, jnp, optax = (import_module(name) for name in names)
    layers = [m for m in job.field.net if isinstance(m, nn.Linear)]
    weights: Any = [(jnp.asarray(m.weight.detach().numpy()), jnp.asarray(m.bias.detach().numpy())) for m in layers]
    start, times, target = (jnp.asarray(x.numpy()) for x in (job.y0, job.t, job.target))

    def field(t: Any, y: Any, p: Any) -> Any:
        return p[1][0] @ jnp.tanh(p[0][0] @ y + p[0][1]) + p[1][1]

    def solve(p: Any) -> Any:
        return diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Tsit5(),
            t0=0.0,
            t1=1.0,
            dt0=None,
            y0=start,
            args=p,
            saveat=diffrax.SaveAt(ts=times),
            stepsize_controller=diffrax.PIDController(rtol=RTOL, atol=ATOL),
            max_steps=256,
        ).ys

    optimizer = optax.adam(rate)

    def step(carry: Any, _: Any) -> Any:
        p, state = carry
        loss, gradients = jax.value_and_grad(lambda p: ((solve(p) - target) ** 2).sum())(p)
        updates, state = optimizer.update(gradients, state)
        return (optax.apply_updates(p, updates), state), loss

    carry = [(weights, optimizer.init(weights))]
    if scanned:
        many = jax.jit(lambda c: jax.lax.scan(step, c, None, length=scanned))
    else:
        many = jax.jit(lambda c: step(c, None))

    def fit(iterations: int) -> list[float]:
        losses = []
        for _ in range(-(-iterations // max(1, scanned))):
            carry[0], loss = many(carry[0])
            losses.append(loss)
        return [float(one) for one in jnp.concatenate([jnp.atleast_1d(loss) for loss in losses])]

    return fit
