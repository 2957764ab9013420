"""The three training steps of issue 6: torch eager, torch.compile, JAX and hotlap, one core, Adam.

The rate is 0: a network that learns its one batch by heart would soon be timed on denormal numbers.
`python benchmarks/small/steps.py` writes benchmarks/results/small-steps.json; times are of one step.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from contest import Contender, contest, save

from hotlap.small import compile_step


def jobs() -> dict[str, tuple[nn.Sequential, nn.Module, torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    return {
        "784-32-10 batch 32": (
            nn.Sequential(nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10)),
            nn.CrossEntropyLoss(),
            torch.randn(32, 784),
            torch.randint(0, 10, (32,)),
        ),
        "3-100-3 batch 1": (
            nn.Sequential(nn.Linear(3, 100), nn.Tanh(), nn.Linear(100, 3)),
            nn.MSELoss(),
            torch.randn(1, 3),
            torch.randn(1, 3),
        ),
        "2-64-64-1 batch 128": (
            nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)),
            nn.MSELoss(),
            torch.randn(128, 2),
            torch.randn(128, 1),
        ),
    }


def eager(job: str, *, fused: bool, compiled: bool = False) -> Contender:
    model, loss, x, y = jobs()[job]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, fused=fused)
    forward: Any = torch.compile(model) if compiled else model

    def run(n: int) -> None:
        for _ in range(n):
            optimizer.zero_grad()
            loss(forward(x), y).backward()
            optimizer.step()

    return run


def ours(job: str) -> Contender:
    model, loss, x, y = jobs()[job]
    step = compile_step(model, loss, torch.optim.Adam(model.parameters(), lr=0.0))

    def run(n: int) -> None:
        for _ in range(n):
            step.step(x, y)

    return run


def ours_fit(job: str) -> Contender:
    """All steps of an epoch in one call: 64 batches."""
    model, loss, x, y = jobs()[job]
    step = compile_step(model, loss, torch.optim.Adam(model.parameters(), lr=0.0))
    many_x, many_y = x.repeat(64, 1), y.repeat(64, *([1] * (y.dim() - 1)))

    def run(n: int) -> None:
        size = x.shape[0]
        if n >= 64:
            step.fit(many_x, many_y, epochs=n // 64, batch_size=size, shuffle=False)
        if n % 64:
            rest = n % 64 * size
            step.fit(many_x[:rest], many_y[:rest], epochs=1, batch_size=size, shuffle=False)

    return run


def in_jax(job: str) -> Contender:
    import jax
    import jax.numpy as jnp
    import optax

    model, _, x, y = jobs()[job]
    weights = [
        (jnp.asarray(m.weight.detach().numpy()), jnp.asarray(m.bias.detach().numpy()))
        for m in model
        if isinstance(m, nn.Linear)
    ]
    activation = jax.nn.relu if job.startswith("784") else jnp.tanh
    labels = y.dtype == torch.int64
    batch, target = jnp.asarray(x.numpy()), jnp.asarray(y.numpy())

    def value(parameters: Any, batch: Any, target: Any) -> Any:
        h = batch
        for w, b in parameters[:-1]:
            h = activation(h @ w.T + b)
        h = h @ parameters[-1][0].T + parameters[-1][1]
        if labels:
            return optax.softmax_cross_entropy_with_integer_labels(h, target).mean()
        return ((h - target) ** 2).mean()

    optimizer = optax.adam(0.0)

    @jax.jit
    def step(parameters: Any, state: Any, batch: Any, target: Any) -> Any:
        _, gradients = jax.value_and_grad(value)(parameters, batch, target)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(parameters, updates), state

    state = optimizer.init(weights)
    kept = [weights, state]

    def run(n: int) -> None:
        for _ in range(n):
            kept[0], kept[1] = step(kept[0], kept[1], batch, target)
        jax.block_until_ready(kept[0])

    return run


def main() -> None:
    torch.set_num_threads(1)
    results = {}
    for job in jobs():
        results[job] = contest(
            {
                "torch eager, Adam": lambda job=job: eager(job, fused=False),
                "torch eager, fused Adam": lambda job=job: eager(job, fused=True),
                "torch.compile, fused Adam": lambda job=job: eager(job, fused=True, compiled=True),
                "JAX jit": lambda job=job: in_jax(job),
                "hotlap step": lambda job=job: ours(job),
                "hotlap fit": lambda job=job: ours_fit(job),
            },
            rounds=7,
            seconds=0.1,
        )
    save("small-steps", results, "one core; other work ran on the machine meanwhile: read the ratios")


if __name__ == "__main__":
    main()
