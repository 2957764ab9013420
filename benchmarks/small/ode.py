"""F4's job, a neural ODE that learns the Lorenz system: torchdiffeq, diffrax and hotlap, float32, one core.

`python benchmarks/small/ode.py` writes benchmarks/results/small-ode.json. Whole trainings: 2,000 iterations from the
same start (solve over (0, 1) with 101 outputs, sum of squares, gradient, Adam at 0.01), in turn, each round anew; then
once more, only up to the loss that all of them reach, each with as many iterations as it needs for that. What the
solver did is counted in runs that are not timed (torchdiffeq's while it is timed: a training takes minutes, counting
nothing), so that nobody wins by solving less. diffrax begins each of these solves with a step of 0.01, where Hairer's
rule, which the others follow, begins with some thousandths of that and grows to it in four steps; so fit is timed with
such a first step as well. Compiling is not counted. Words on the command line leave contenders out.
"""

import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from contest import write
from lorenz import ATOL, RTOL, Counts, Diffrax, Fit, Job

from hotlap.levers import Patch
from hotlap.levers.native import NativeOde, NativeStep
from hotlap.small import NeuralODE, odeint
from hotlap.small.solve import compiled_for

ITERATIONS = 2000
ROUNDS = 5
# What diffrax takes, asked for none (`dt0=None`, 0.7.2).
FIRST_STEP = {"first_step": 0.01}
# One whole training of those that take longer is enough: they last for minutes.
LONG_S = 20.0

Start = Callable[[], Fit]
"""A training at its start: what it returns makes so many iterations and says the losses."""


class Contender:
    """A way to do it, and what came of it."""

    def __init__(self, start: Start, count: Callable[[], Counts]) -> None:
        self.start = start
        self.count = count
        self.seconds: list[float] = []
        self.to_loss_s: list[float] = []
        self.losses: list[float] = []

    def train(self, iterations: int) -> float:
        """Seconds."""
        fit = self.start()
        begun = perf_counter()
        losses = fit(iterations)
        took_s = perf_counter() - begun
        if iterations == ITERATIONS:
            self.losses = losses
        return took_s

    def first_below(self, loss: float) -> int:
        """Iterations until then."""
        return next(i + 1 for i, one in enumerate(self.losses) if one <= loss)


@contextmanager
def levers(*kinds: type) -> Iterator[None]:
    """As `hotlap tune` has them at work in a script that nobody changed."""
    patch = Patch()
    for kind in kinds:
        kind().install(patch)
    yield
    patch.undo()


def script(solve: Any, method: str, *kinds: type, fused: bool | None = None) -> Start:
    """The loop that a script has: any odeint, its own loss, torch's Adam."""

    def start() -> Fit:
        fit = Job(fused=fused).loop(solve, method)

        def run(iterations: int) -> list[float]:
            with levers(*kinds):
                return fit(iterations)

        return run

    return start


def at_once(calls_of: int = ITERATIONS, options: Mapping[str, Any] | None = None) -> Start:
    """NeuralODE.fit, so many iterations a call."""

    def start() -> Fit:
        job = Job()
        ode = NeuralODE(job.field, rtol=RTOL, atol=ATOL, options=options)

        def run(iterations: int) -> list[float]:
            losses: list[float] = []
            while len(losses) < iterations:
                count = min(calls_of, iterations - len(losses))
                losses += ode.fit(job.y0, job.t, job.target, optimizer=job.optimizer, iterations=count)
            return losses

        return run

    return start


def ours(method: str, options: Mapping[str, Any] | None = None) -> Callable[[], Counts]:
    """What our solver does, asked after each iteration of a training with fit."""

    def count() -> Counts:
        job = Job()
        ode = NeuralODE(job.field, method=method, rtol=RTOL, atol=ATOL, options=options)
        found = Counts()
        for _ in range(ITERATIONS):
            ode.fit(job.y0, job.t, job.target, optimizer=job.optimizer)
            solver = compiled_for(ode._field, job.y0, method).lease().native
            # Six new ones a try; before the first, its first stage, and one more to choose its size.
            tried = (solver.num_evaluations - 1) // 6
            found.add(solver.num_steps, tried - solver.num_steps, solver.num_evaluations)
        return found

    return count


def contenders() -> Iterator[tuple[str, Callable[[], Contender]]]:
    def in_torchdiffeq() -> Contender:
        import torchdiffeq

        found: list[Counts] = []

        def start() -> Fit:
            job = Job()
            found[:] = [Counts.of(job.field)]
            return job.loop(torchdiffeq.odeint, "dopri5")

        return Contender(start, lambda: found[0])

    def untouched() -> Contender:
        import torchdiffeq

        return Contender(script(torchdiffeq.odeint, "dopri5", NativeOde, NativeStep), ours("dopri5"))

    def diffrax(scanned: int) -> Contender:
        jax = Diffrax(scanned)
        return Contender(jax.start, jax.count)

    dopri5 = ours("dopri5")
    yield "torchdiffeq dopri5, backprop", in_torchdiffeq
    yield "diffrax Tsit5, a call each", lambda: diffrax(0)
    yield f"diffrax Tsit5, {ITERATIONS:,} in a scan", lambda: diffrax(ITERATIONS)
    yield "hotlap odeint dopri5 in the script", lambda: Contender(script(odeint, "dopri5"), dopri5)
    fused = script(odeint, "dopri5", fused=True)
    yield "hotlap odeint dopri5 in the script, fused Adam", lambda: Contender(fused, dopri5)
    native = script(odeint, "dopri5", NativeStep)
    yield "hotlap odeint dopri5 in the script, native_steps", lambda: Contender(native, dopri5)
    yield "torchdiffeq dopri5, under native-ode and native-step", untouched
    yield f"hotlap NeuralODE.fit, {ITERATIONS:,} in a call", lambda: Contender(at_once(), ours("tsit5"))
    stepped = at_once(options=FIRST_STEP), ours("tsit5", FIRST_STEP)
    yield f"hotlap NeuralODE.fit, {ITERATIONS:,} in a call, first step 0.01", lambda: Contender(*stepped)
    yield "hotlap NeuralODE.fit, a call each", lambda: Contender(at_once(1), ours("tsit5"))


def row(name: str, one: Contender, goal: float) -> dict[str, Any]:
    """Of the JSON and of the table in docs."""
    counts = one.count()
    return {
        "job": "Lorenz, 3-100-3",
        "contender": name,
        "total_s": statistics.median(one.seconds),
        "least_s": min(one.seconds),
        "most_s": max(one.seconds),
        "rounds": len(one.seconds),
        "iteration_s": statistics.median(one.seconds) / ITERATIONS,
        "to_loss_s": statistics.median(one.to_loss_s),
        "iterations_to_loss": one.first_below(goal),
        "last_loss": one.losses[-1],
        "accepted": counts.accepted / ITERATIONS,
        "rejected": counts.rejected / ITERATIONS,
        "evaluations": counts.evaluations / ITERATIONS,
    }


def trained(ready: Mapping[str, Contender]) -> None:
    """Whole trainings, in turn."""
    for round_ in range(ROUNDS):
        for name, one in ready.items():
            if round_ == 0 or max(one.seconds) < LONG_S:
                one.seconds.append(one.train(ITERATIONS))
                print(round_, name, f"{one.seconds[-1]:.3f} s, loss {one.losses[-1]:.4g}", flush=True)


def trained_to(goal: float, ready: Mapping[str, Contender]) -> None:
    """In turn up to this loss."""
    for _ in range(ROUNDS):
        for name, one in ready.items():
            iterations = one.first_below(goal)
            if "scan" in name or max(one.seconds) >= LONG_S:  # made whole, or long: by the mean iteration
                one.to_loss_s.append(statistics.median(one.seconds) * iterations / ITERATIONS)
            else:
                one.to_loss_s.append(one.train(iterations))


def main() -> None:
    torch.set_num_threads(1)
    makers = {name: make for name, make in contenders() if not any(word in name for word in sys.argv[1:])}
    ready = {name: make() for name, make in makers.items()}
    for name, one in ready.items():
        one.train(ITERATIONS if "scan" in name else 20)  # compiles
    trained(ready)
    goal = max(min(one.losses) for one in ready.values())
    trained_to(goal, ready)
    rows = [row(name, one, goal) for name, one in ready.items()]
    write("small-ode", rows, f"one core; whole trainings, and to a loss of {goal:.4g}, which all reach")
    for made in rows:
        print(made["contender"], f"{made['total_s']:.4f} s, {made['evaluations']:.1f} evaluations")


if __name__ == "__main__":
    main()
