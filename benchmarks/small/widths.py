"""No cliff: a step of width-width-width with tanh, over widths and batches, against torch eager, torch.compile and JAX.

`python benchmarks/small/widths.py` writes benchmarks/results/small-widths.json. MSE, Adam, float32, one thread.
torch.compile is there twice: of the model, beside the fused Adam, and of the whole step, loss, gradient and Adam as one
function. Words on the command line leave contenders out: `widths.py JAX` is without JAX. `--widths 16,256` takes only
these, and shows them without writing.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from contest import Contender, contest, save, show

from hotlap.small import compile_step

WIDTHS, BATCHES = (16, 64, 256, 1024, 2048), (1, 32, 1024)
BETAS, EPS = (0.9, 0.999), 1e-8


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


def whole_step(width: int, batch: int) -> Contender:
    """Forward, loss, gradient and Adam as one compiled function of tensors, which it changes in place."""
    net, x, y = job(width, batch)
    p = [p.detach().clone() for p in net.parameters()]
    m, v = [torch.zeros_like(q) for q in p], [torch.zeros_like(q) for q in p]

    def value(p: list[torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(nn.functional.linear(x, p[0], p[1]))
        return nn.functional.mse_loss(nn.functional.linear(h, p[2], p[3]), y)

    @torch.compile
    def step(count: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        gradients, loss = torch.func.grad_and_value(value)(p, x, y)
        count += 1
        rate, root = 0.0 / (1 - BETAS[0] ** count), (1 - BETAS[1] ** count).sqrt()
        for q, g, a, b in zip(p, gradients, m, v, strict=True):
            a.lerp_(g, 1 - BETAS[0])
            b.mul_(BETAS[1]).addcmul_(g, g, value=1 - BETAS[1])
            q.sub_(rate * a / (b.sqrt() / root + EPS))
        return loss

    count = torch.zeros(())

    def run(n: int) -> None:
        with torch.no_grad():
            for _ in range(n):
                step(count, x, y)

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


def widths() -> tuple[int, ...]:
    """All, or those of `--widths`."""
    if "--widths" not in sys.argv:
        return WIDTHS
    place = sys.argv.index("--widths")
    chosen = tuple(int(width) for width in sys.argv[place + 1].split(","))
    del sys.argv[place : place + 2]
    return chosen


def main() -> None:
    torch.set_num_threads(1)
    some, results = "--widths" in sys.argv, {}
    for width in widths():
        for batch in BATCHES:
            torch.compiler.reset()
            makers = {
                "torch eager, fused Adam": lambda w=width, b=batch: eager(w, b),
                "torch.compile, fused Adam": lambda w=width, b=batch: eager(w, b, compiled=True),
                "torch.compile of the whole step": lambda w=width, b=batch: whole_step(w, b),
                "JAX jit": lambda w=width, b=batch: in_jax(w, b),
                "hotlap step": lambda w=width, b=batch: ours(w, b),
            }
            job_name = f"width {width}, batch {batch}"
            results[job_name] = contest(makers, rounds=7, seconds=0.05)
            show(job_name, results[job_name])
    if not some:
        save("small-widths", results, "one core; other work ran on the machine meanwhile: read the ratios")


if __name__ == "__main__":
    main()
