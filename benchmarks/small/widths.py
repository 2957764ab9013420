"""No cliff: a step of width-width-width with tanh, over widths and batches, against torch eager, torch.compile and JAX.

`python benchmarks/small/widths.py` writes benchmarks/results/small-widths.json. MSE, Adam, float32, one thread. Ours is
`compile_step` as a user has it: natively, or handed over to torch where that was measured to be faster.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from contest import Contender, contest, save

from hotlap.small import compile_step

WIDTHS, BATCHES = (16, 64, 256, 1024, 2048), (1, 32, 1024)
COMPILED = {(16, 1), (16, 32), (256, 32), (1024, 32), (2048, 1024)}
"""torch.compile takes many seconds for each, so it is shown where it matters: at the corners and in the middle."""


def job(width: int, batch: int) -> tuple[nn.Sequential, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width))
    return net, torch.randn(batch, width), torch.randn(batch, width)


def eager(width: int, batch: int, *, compiled: bool = False) -> Contender:
    net, x, y = job(width, batch)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.0, fused=True)
    forward: Any = torch.compile(net) if compiled else net

    def run(n: int) -> None:
        for _ in range(n):
            optimizer.zero_grad()
            nn.functional.mse_loss(forward(x), y).backward()
            optimizer.step()

    return run


def ours(width: int, batch: int) -> Contender:
    net, x, y = job(width, batch)
    step = compile_step(net, nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=0.0))

    def run(n: int) -> None:
        for _ in range(n):
            step.step(x, y)

    return run


def in_jax(width: int, batch: int) -> Contender:
    import jax
    import jax.numpy as jnp
    import optax

    net, x, y = job(width, batch)
    weights = [jnp.asarray(p.detach().numpy()) for p in net.parameters()]
    data, target = jnp.asarray(x.numpy()), jnp.asarray(y.numpy())
    optimizer = optax.adam(0.0)

    def value(p: Any) -> Any:
        return ((jnp.tanh(data @ p[0].T + p[1]) @ p[2].T + p[3] - target) ** 2).mean()

    @jax.jit
    def step(p: Any, state: Any) -> Any:
        updates, state = optimizer.update(jax.grad(value)(p), state)
        return optax.apply_updates(p, updates), state

    kept = [weights, optimizer.init(weights)]

    def run(n: int) -> None:
        for _ in range(n):
            kept[0], kept[1] = step(kept[0], kept[1])
        jax.block_until_ready(kept[0])

    return run


def main() -> None:
    torch.set_num_threads(1)
    results = {}
    for width in WIDTHS:
        for batch in BATCHES:
            makers = {
                "torch eager, fused Adam": lambda w=width, b=batch: eager(w, b),
                "JAX jit": lambda w=width, b=batch: in_jax(w, b),
                "hotlap step": lambda w=width, b=batch: ours(w, b),
            }
            if (width, batch) in COMPILED:
                makers["torch.compile, fused Adam"] = lambda w=width, b=batch: eager(w, b, compiled=True)
            results[f"width {width}, batch {batch}"] = contest(makers, rounds=3, seconds=0.05)
    save("small-widths", results, "one core; other work ran on the machine meanwhile: read the ratios")


if __name__ == "__main__":
    main()
