"""F4's job, a neural ODE of the Lorenz system: torchdiffeq, diffrax and hotlap, float32, one core.

`python benchmarks/small/ode.py` writes benchmarks/results/small-ode.json; times are of one training iteration: solve
over (0, 1) with 101 outputs, sum of squares, gradient, Adam. The weights stand still (rate 0), so that every contender
solves the same problem however often it is called.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from contest import Contender, contest, save

from hotlap.small.neural_ode import NeuralODE
from hotlap.small.solve import odeint

RTOL, ATOL = 1e-3, 1e-6


class Field(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(3, 100), nn.Tanh(), nn.Linear(100, 3))

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.net(y)
        return out


def lorenz(t: Any, u: Any) -> Any:
    x, y, z = u[..., 0], u[..., 1], u[..., 2]
    return torch.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8 / 3 * z], dim=-1)


Y0, T = torch.tensor([1.0, 0.0, 0.0]), torch.linspace(0, 1, 101)
TARGET = odeint(lorenz, Y0.double(), T.double(), rtol=1e-9, atol=1e-11).float()


def script(solve: Any, method: str, *, fused: bool | None = None) -> Contender:
    """The loop that a script has: any odeint, its own loss, torch's Adam."""
    field = Field()
    optimizer = torch.optim.Adam(field.parameters(), lr=0.0, fused=fused)

    def run(n: int) -> None:
        for _ in range(n):
            optimizer.zero_grad()
            loss = (solve(field, Y0, T, rtol=RTOL, atol=ATOL, method=method) - TARGET).square().sum()
            loss.backward()
            optimizer.step()

    return run


def in_torchdiffeq() -> Contender:
    import torchdiffeq

    return script(torchdiffeq.odeint, "dopri5")


class Nothing(torch.autograd.Function):
    """In the place of a solve: a result and gradients that cost nothing but their memory."""

    @staticmethod
    def forward(ctx: Any, *parameters: torch.Tensor) -> torch.Tensor:
        ctx.parameters = parameters
        return torch.empty_like(TARGET)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return tuple([torch.empty_like(p) for p in ctx.parameters])


def without_a_solve(*, fused: bool | None = None) -> Contender:
    """What the script costs whatever odeint is in it: torch's own loss, autograd and Adam."""
    apply = super(torch.autograd.Function, Nothing).apply
    return script(lambda field, *_, **__: apply(*field.parameters()), "", fused=fused)


def with_native_steps() -> Contender:
    """The script with our odeint, and native_steps() called once: torch's Adam object, its update natively."""
    from hotlap.levers import Patch
    from hotlap.levers.native_step import NativeStep

    inner = script(odeint, "dopri5")

    def run(n: int) -> None:
        patch = Patch()
        NativeStep().install(patch)
        inner(n)
        patch.undo()

    return run


def untouched() -> Contender:
    """The script with torchdiffeq, as it runs under the levers native-ode and native-step."""
    import torchdiffeq

    from hotlap.levers import Patch
    from hotlap.levers.native_ode import NativeOde
    from hotlap.levers.native_step import NativeStep

    inner = script(torchdiffeq.odeint, "dopri5")

    def run(n: int) -> None:
        patch = Patch()
        NativeOde().install(patch)
        NativeStep().install(patch)
        inner(n)
        patch.undo()

    return run


def fit(**options: Any) -> Contender:
    field = Field()
    optimizer = torch.optim.Adam(field.parameters(), lr=0.0)
    ode = NeuralODE(field, rtol=RTOL, atol=ATOL, options=options)

    def run(n: int) -> None:
        ode.fit(Y0, T, TARGET, optimizer=optimizer, iterations=n)

    return run


def in_diffrax(*, scanned: bool) -> Contender:  # noqa: C901 - one job, told in functions
    import diffrax
    import jax
    import jax.numpy as jnp
    import optax

    layers = [m for m in Field().net if isinstance(m, nn.Linear)]
    weights = [(jnp.asarray(m.weight.detach().numpy()), jnp.asarray(m.bias.detach().numpy())) for m in layers]
    start, times, target = (jnp.asarray(x.numpy()) for x in (Y0, T, TARGET))

    def field(t: Any, y: Any, p: Any) -> Any:
        return p[1][0] @ jnp.tanh(p[0][0] @ y + p[0][1]) + p[1][1]

    def value(p: Any) -> Any:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Tsit5(),
            t0=0.0,
            t1=1.0,
            dt0=None,
            y0=start,
            args=p,
            saveat=diffrax.SaveAt(ts=times),
            stepsize_controller=diffrax.PIDController(rtol=RTOL, atol=ATOL),
            max_steps=64,
        )
        return ((solution.ys - target) ** 2).sum()

    optimizer = optax.adam(0.0)

    def step(carry: Any, _: Any) -> Any:
        p, state = carry
        loss, gradients = jax.value_and_grad(value)(p)
        updates, state = optimizer.update(gradients, state)
        return (optax.apply_updates(p, updates), state), loss

    carry = (weights, optimizer.init(weights))
    if scanned:
        many = jax.jit(lambda c: jax.lax.scan(step, c, None, length=100))

        def run(n: int) -> None:
            for _ in range(-(-n // 100)):
                jax.block_until_ready(many(carry))

        run.least = 100  # type: ignore[attr-defined]
        return run
    once = jax.jit(lambda c: step(c, None))

    def run_once(n: int) -> None:
        for _ in range(n):
            jax.block_until_ready(once(carry))

    return run_once


def main() -> None:
    torch.set_num_threads(1)
    results = contest(
        {
            "torchdiffeq dopri5, backprop": in_torchdiffeq,
            "diffrax Tsit5, a call each": lambda: in_diffrax(scanned=False),
            "diffrax Tsit5, 100 in a scan": lambda: in_diffrax(scanned=True),
            "hotlap odeint dopri5 in the script": lambda: script(odeint, "dopri5"),
            "hotlap odeint dopri5 in the script, fused Adam": lambda: script(odeint, "dopri5", fused=True),
            "hotlap odeint tsit5 in the script": lambda: script(odeint, "tsit5"),
            "hotlap odeint dopri5 in the script, native_steps": with_native_steps,
            "no solve in the script": without_a_solve,
            "no solve in the script, fused Adam": lambda: without_a_solve(fused=True),
            "torchdiffeq dopri5, under native-ode and native-step": untouched,
            "hotlap NeuralODE.fit, I controller": fit,
            "hotlap NeuralODE.fit, PI controller": lambda: fit(controller="pi"),
            "hotlap NeuralODE.fit, first step 0.01": lambda: fit(first_step=0.01),
        },
        rounds=7,
        seconds=0.1,
    )
    save(
        "small-ode",
        {"Lorenz, 3-100-3": results},
        "one core; other work ran on the machine meanwhile: read the ratios",
    )


if __name__ == "__main__":
    main()
