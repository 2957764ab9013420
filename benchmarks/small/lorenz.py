"""F4's job in torch, with whatever solver and optimizer, and in JAX with diffrax: what ode.py times."""

import os
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Self

import torch
from torch import nn

from hotlap.small import odeint

RATE = 0.01
RTOL, ATOL = 1e-3, 1e-6

Fit = Callable[[int], list[float]]
"""Makes so many iterations more; the loss before each update."""


class Counts:
    """What a solver did: accepted and rejected steps, and evaluations of the field."""

    def __init__(self) -> None:
        self.accepted = self.rejected = self.evaluations = 0

    def add(self, accepted: int, rejected: int, evaluations: int) -> None:
        """Of one solve more."""
        self.accepted += accepted
        self.rejected += rejected
        self.evaluations += evaluations

    @classmethod
    def of(cls, field: Any) -> Self:
        """Of all that torchdiffeq will do with this field."""
        found = cls()
        field.callback_accept_step = lambda *_: found.add(1, 0, 0)
        field.callback_reject_step = lambda *_: found.add(0, 1, 0)
        field.register_forward_pre_hook(lambda *_: found.add(0, 0, 1))
        return found


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

    def __init__(self, *, fused: bool | None = None) -> None:
        self.y0, self.t = torch.tensor([1.0, 0.0, 0.0]), torch.linspace(0, 1, 101)
        self.target = odeint(lorenz, self.y0.double(), self.t.double(), rtol=1e-9, atol=1e-11).float()
        self.field = Field()
        self.optimizer = torch.optim.Adam(self.field.parameters(), lr=RATE, fused=fused)

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


class Diffrax:
    """The same training in JAX, each iteration one compiled call, or `scanned` of them."""

    def __init__(self, scanned: int) -> None:
        os.environ["JAX_PLATFORMS"] = "cpu"  # where a GPU is there JAX would take it
        self._scanned = scanned
        self._job = job = Job()
        self._diffrax, self._jax, self._jnp, self._optax = map(import_module, ("diffrax", "jax", "jax.numpy", "optax"))
        self._start, self._times, self._target = (self._jnp.asarray(x.numpy()) for x in (job.y0, job.t, job.target))
        self._optimizer = self._optax.adam(RATE)
        jax = self._jax
        self._many = jax.jit(
            (lambda carry: jax.lax.scan(self._step, carry, None, length=scanned))
            if scanned
            else (lambda carry: self._step(carry, None))
        )

    def start(self) -> Fit:
        """A training at its start."""
        return lambda iterations: [float(loss) for loss, _ in self._trained(iterations)]

    def count(self) -> Counts:
        """What the solver did in a whole training."""
        found = Counts()
        for _, steps in self._trained(self._scanned or 2000):
            accepted, rejected = map(int, steps)
            found.add(accepted, rejected, 6 * (accepted + rejected) + 2)
        return found

    def _trained(self, iterations: int) -> Iterable[tuple[Any, Any]]:
        layers = [m for m in self._job.field.net if isinstance(m, nn.Linear)]
        weights: Any = [tuple(self._jnp.asarray(p.detach().numpy()) for p in (m.weight, m.bias)) for m in layers]
        carry, made = (weights, self._optimizer.init(weights)), []
        for _ in range(-(-iterations // max(1, self._scanned))):
            carry, found = self._many(carry)
            made.append(found)
        losses, *steps = (
            self._jnp.concatenate(list(map(self._jnp.atleast_1d, part))) for part in zip(*made, strict=True)
        )
        return zip(losses.tolist(), zip(*(part.tolist() for part in steps), strict=True), strict=True)

    def _solve(self, p: Any) -> Any:
        diffrax = self._diffrax
        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, p: p[1][0] @ self._jnp.tanh(p[0][0] @ y + p[0][1]) + p[1][1]),
            diffrax.Tsit5(),
            t0=0.0,
            t1=1.0,
            dt0=None,
            y0=self._start,
            args=p,
            saveat=diffrax.SaveAt(ts=self._times),
            stepsize_controller=diffrax.PIDController(rtol=RTOL, atol=ATOL),
            max_steps=256,
        )

    def _step(self, carry: Any, _: Any) -> Any:
        def loss_of(p: Any) -> Any:
            found = self._solve(p)
            counts = (found.stats["num_accepted_steps"], found.stats["num_rejected_steps"])
            return ((found.ys - self._target) ** 2).sum(), counts

        p, state = carry
        (loss, counts), gradients = self._jax.value_and_grad(loss_of, has_aux=True)(p)
        updates, state = self._optimizer.update(gradients, state)
        return (self._optax.apply_updates(p, updates), state), (loss, *counts)
