"""scikit-learn's 1,797 digits, 64-32-10, batch 32, Adam: seconds of training until 97% of the held-out are right.

`python benchmarks/small/digits.py` writes benchmarks/results/small-digits.json. All contenders take turns, seed by
seed, with the same split, sizes and rate, each in its own idiom; the test after each epoch, and compiling, are not
counted.
"""

import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from contest import write

from hotlap.small import compile_step

GOAL, MOST_EPOCHS, RATE, BATCH, SEEDS = 0.97, 60, 3e-3, 32, 5

Epoch = Callable[[], None]
Right = Callable[[], float]
"""Trains one epoch; the share of held-out digits that are right."""


def data() -> tuple[Any, Any, Any, Any]:
    X, y = load_digits(return_X_y=True)  # noqa: N806 - as in scikit-learn
    split: tuple[Any, Any, Any, Any] = tuple(
        train_test_split((X / 16).astype(np.float32), y, test_size=0.2, random_state=0)
    )
    return split


TRAIN_X, TEST_X, TRAIN_Y, TEST_Y = data()


def network(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def right_of(net: nn.Module) -> Right:
    x, y = torch.from_numpy(TEST_X), torch.from_numpy(TEST_Y)

    def right() -> float:
        with torch.no_grad():
            return float((net(x).argmax(1) == y).float().mean())

    return right


def in_hotlap(seed: int) -> tuple[Epoch, Right]:
    net = network(seed)
    step = compile_step(net, nn.CrossEntropyLoss(), torch.optim.Adam(net.parameters(), lr=RATE))
    x, y = torch.from_numpy(TRAIN_X), torch.from_numpy(TRAIN_Y)
    generator = torch.Generator().manual_seed(seed)
    return lambda: void(step.fit(x, y, batch_size=BATCH, generator=generator)), right_of(net)


def in_torch(seed: int, *, fused: bool) -> tuple[Epoch, Right]:
    net = network(seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE, fused=fused)
    x, y = torch.from_numpy(TRAIN_X), torch.from_numpy(TRAIN_Y)
    loss = nn.CrossEntropyLoss()

    def epoch() -> None:
        for rows in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            loss(net(x[rows]), y[rows]).backward()
            optimizer.step()

    return epoch, right_of(net)


def in_scikit_learn(seed: int) -> tuple[Epoch, Right]:
    net = MLPClassifier((32,), learning_rate_init=RATE, batch_size=BATCH, alpha=0.0, random_state=seed)
    classes = np.arange(10)
    return lambda: void(net.partial_fit(TRAIN_X, TRAIN_Y, classes=classes)), lambda: float(net.score(TEST_X, TEST_Y))


def in_jax(seed: int) -> tuple[Epoch, Right]:
    import jax
    import jax.numpy as jnp
    import optax

    weights = [jnp.asarray(p.detach().numpy()) for p in network(seed).parameters()]
    optimizer = optax.adam(RATE)
    x, y, test = jnp.asarray(TRAIN_X), jnp.asarray(TRAIN_Y), jnp.asarray(TEST_X)

    def forward(p: Any, x: Any) -> Any:
        return jax.nn.relu(x @ p[0].T + p[1]) @ p[2].T + p[3]

    def value(p: Any, x: Any, y: Any) -> Any:
        return optax.softmax_cross_entropy_with_integer_labels(forward(p, x), y).mean()

    @jax.jit
    def epoch(p: Any, state: Any, order: Any) -> Any:
        def step(carry: Any, rows: Any) -> Any:
            p, state = carry
            updates, state = optimizer.update(jax.grad(value)(p, x[rows], y[rows]), state)
            return (optax.apply_updates(p, updates), state), None

        return jax.lax.scan(step, (p, state), order)[0]

    kept: list[Any] = [weights, optimizer.init(weights)]
    generator = np.random.default_rng(seed)

    def run() -> None:
        order = generator.permutation(len(TRAIN_X))[: len(TRAIN_X) // BATCH * BATCH].reshape(-1, BATCH)
        kept[:] = epoch(kept[0], kept[1], order)
        jax.block_until_ready(kept[0])

    epoch(kept[0], kept[1], np.zeros((len(TRAIN_X) // BATCH, BATCH), dtype=np.int64))  # compiled here
    return run, lambda: float((np.asarray(forward(kept[0], test)).argmax(1) == TEST_Y).mean())


def void(_: object) -> None:
    """Throw a result away."""


def seconds_to_goal(make: Callable[[int], tuple[Epoch, Right]], seed: int) -> tuple[float | None, int]:
    """(seconds of training, epochs); None where the goal was not reached."""
    epoch, right = make(seed)
    spent = 0.0
    for number in range(1, MOST_EPOCHS + 1):
        start = perf_counter()
        epoch()
        spent += perf_counter() - start
        if right() >= GOAL:
            return spent, number
    return None, MOST_EPOCHS


def main() -> None:
    torch.set_num_threads(1)
    makers: dict[str, Callable[[int], tuple[Epoch, Right]]] = {
        "hotlap fit": in_hotlap,
        "scikit-learn MLPClassifier": in_scikit_learn,
        "torch eager, Adam": lambda seed: in_torch(seed, fused=False),
        "torch eager, fused Adam": lambda seed: in_torch(seed, fused=True),
        "JAX, an epoch in a scan": in_jax,
    }
    for make in makers.values():
        make(99)[0]()  # imports and first calls
    found: dict[str, list[tuple[float | None, int]]] = {name: [] for name in makers}
    for seed in range(SEEDS):
        for name, make in makers.items():
            found[name].append(seconds_to_goal(make, seed))
    rows: list[dict[str, Any]] = []
    for name, runs in found.items():
        reached = [seconds for seconds, _ in runs if seconds is not None]
        rows.append(
            {
                "contender": name,
                "median_s": statistics.median(reached) if reached else None,
                "least_s": min(reached, default=None),
                "most_s": max(reached, default=None),
                "median_epochs": statistics.median(epochs for _, epochs in runs),
                "reached": f"{len(reached)} of {len(runs)}",
            }
        )
        print(rows[-1])
    write("small-digits", rows, f"one core, other work on the machine meanwhile; {SEEDS} seeds; goal {GOAL:.0%}")


if __name__ == "__main__":
    main()
