"""F4's job, a neural ODE of the Lorenz system: torchdiffeq, diffrax and hotlap, float32, one core.

`python benchmarks/small/ode.py` writes benchmarks/results/small-ode.json; times are of one training iteration: solve
over (0, 1) with 101 outputs, sum of squares, gradient, Adam. The weights stand still (rate 0), so that every contender
solves the same problem however often it is called.
"""

import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from contest import Contender, contest, save
from lorenz import ATOL, RTOL, Job, in_diffrax

from hotlap.small import NeuralODE, odeint


def script(solve: Any, method: str, *, fused: bool | None = None) -> Contender:
    """The loop that a script has: any odeint, its own loss, torch's Adam."""
    return Job("cpu", rate=0.0, fused=fused).loop(solve, method)


def in_torchdiffeq() -> Contender:
    import torchdiffeq

    return script(torchdiffeq.odeint, "dopri5")


class Nothing(torch.autograd.Function):
    """In the place of a solve: a result and gradients that cost nothing but their memory."""

    @staticmethod
    def forward(ctx: Any, *parameters: torch.Tensor) -> torch.Tensor:
        ctx.parameters = parameters
        return torch.empty(101, 3)

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
    job = Job("cpu", rate=0.0)
    ode = NeuralODE(job.field, rtol=RTOL, atol=ATOL, options=options)
    return lambda n: ode.fit(job.y0, job.t, job.target, optimizer=job.optimizer, iterations=n)


def diffrax(*, scanned: int) -> Contender:
    run: Any = in_diffrax(Job("cpu", rate=0.0), rate=0.0, scanned=scanned)

    def contender(n: int) -> None:
        run(n)

    if scanned:
        contender.least = scanned  # type: ignore[attr-defined]
    return contender


def main() -> None:
    torch.set_num_threads(1)
    results = contest(
        {
            "torchdiffeq dopri5, backprop": in_torchdiffeq,
            "diffrax Tsit5, a call each": lambda: diffrax(scanned=0),
            "diffrax Tsit5, 100 in a scan": lambda: diffrax(scanned=100),
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
