"""A neural ODE of the Lorenz system, trained with one library. Asked by hotlap.lab.lorenz."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from statistics import median
from typing import Any

import torch
from torch import nn

from hotlap.lab.child import answer
from hotlap.lab.lorenz import DIFFRAX, FIT, ODEINT, TORCHDIFFEQ, Answer, Question
from hotlap.predict import trace
from hotlap.record import encode
from hotlap.small import NeuralODE, odeint
from hotlap.small.native import core

RATE = 0.01
RTOL, ATOL = 1e-3, 1e-6
# Of timing in one process: less says little on a machine that others use.
_LEAST_S = 0.5
# Each repeat makes the job anew, which takes longer than our iterations do.
_MOST_REPEATS = 20

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

    def loop(self, solve: Any, method: str) -> tuple[Fit, Callable[[], None]]:
        """The training loop that a script has, and one iteration of it."""
        losses: list[torch.Tensor] = []

        def once() -> None:
            self.optimizer.zero_grad()
            found = solve(self.field, self.y0, self.t, rtol=RTOL, atol=ATOL, method=method)
            loss = (found - self.target).square().sum()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.detach())

        def fit(iterations: int) -> list[float]:
            losses.clear()
            for _ in range(iterations):
                once()
            return [float(loss) for loss in losses]

        return fit, once


def main(question: Question) -> Answer:
    """Train with one of them."""
    fit = contender(question.way, device=question.device)
    begun = time.perf_counter()
    losses = fit(1)
    first_s = time.perf_counter() - begun
    iteration_s: list[float] = []
    spent_s = 0.0
    while not iteration_s or (spent_s < _LEAST_S and len(iteration_s) < _MOST_REPEATS):
        # Once more from the start: later iterations take other numbers of steps.
        again = contender(question.way, device=question.device)
        losses = again(1)
        begun = time.perf_counter()
        losses += again(question.iterations - 1)
        took_s = time.perf_counter() - begun
        spent_s += took_s
        iteration_s.append(took_s / (question.iterations - 1))
    whole_s = None
    if question.whole:
        fit = contender(question.way, device=question.device)
        begun = time.perf_counter()
        losses = fit(question.whole)
        whole_s = time.perf_counter() - begun
    return Answer(
        iteration_s=tuple(iteration_s),
        losses=tuple(losses),
        first_s=first_s,
        whole_s=whole_s,
        workload=_traced(question, iteration_s),
        gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        native=core().module is not None,
    )


def contender(way: str, *, device: str = "cpu") -> Fit:
    """A training that has not begun."""
    job = Job(device)
    if way == DIFFRAX:
        return in_diffrax(job)
    if way == FIT:
        ode = NeuralODE(job.field, rtol=RTOL, atol=ATOL)
        return lambda n: ode.fit(job.y0, job.t, job.target, optimizer=job.optimizer, iterations=n)
    return job.loop(*_solver(way))[0]


def _solver(way: str) -> tuple[Any, str]:
    if way == TORCHDIFFEQ:
        return import_module("torchdiffeq").odeint, "dopri5"
    assert way == ODEINT, way
    return odeint, "tsit5"


def _traced(question: Question, iteration_s: list[float]) -> str | None:
    """One iteration in torch's operators, as JSON; None where it is none of torch's, or is measured on a GPU."""
    if question.way in (DIFFRAX, FIT) or question.device != "cpu":
        return None
    job = Job(question.device)
    _, once = job.loop(*_solver(question.way))
    once()
    work = trace.record(once, parameters=job.field.parameters(), name=question.way)
    # The host's part of an operator is the same beside a GPU: what it takes here, where arithmetic is nothing.
    return encode(replace(work, host_s=median(iteration_s) / work.num_kernels)).decode()


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


if __name__ == "__main__":
    answer(Question, main)
