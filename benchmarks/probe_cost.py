"""What does the probe cost a step? The same training with and without its hooks, switched every block of steps.

One process, alternating blocks (A B B A), models from a few hundred microseconds to some tens of milliseconds a step.
"""

import math
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import results_file
from hotlap.levers import Patch
from hotlap.probe import hooks
from hotlap.probe.session import Session
from hotlap.record import Plan

ROUNDS = 40
BLOCK = 11

# (name, layers of the network, batch, steps make about that long)
MODELS = {
    "linear 10-10, batch 8": ([10, 10], 8),
    "MLP 784-128-10, batch 64": ([784, 128, 10], 64),
    "MLP 784-512-512-10, batch 256": ([784, 512, 512, 10], 256),
    "20 layers of 512, batch 256": ([512] * 21, 256),
}


def trainer(sizes: list[int], batch: int) -> Callable[[int], float]:
    """Seconds of a number of training steps, loader included."""
    layers: list[nn.Module] = []
    for width, after in pairwise(sizes):
        layers += [nn.Linear(width, after), nn.ReLU()]
    model, loss_fn = nn.Sequential(*layers), nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters())
    data = TensorDataset(torch.randn(4 * batch, sizes[0]), torch.randn(4 * batch, sizes[-1]))
    loader = DataLoader(data, batch_size=batch, shuffle=True)

    def batches():
        while True:
            yield from loader

    source = batches()

    def steps(number: int) -> float:
        begun = time.perf_counter()
        for _ in range(number):
            x, y = next(source)
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            loss.item()
        return time.perf_counter() - begun

    return steps


def measure(sizes: list[int], batch: int) -> tuple[list[float], list[float]]:
    """(Step times of blocks without the probe, with it)."""
    steps = trainer(sizes, batch)
    steps(50)
    plain, probed = [], []
    with tempfile.TemporaryDirectory() as out:
        session = Session(Plan(command=("x",), cwd=".", out=out, steps=10**9, warmup=0))
        for k in range(ROUNDS):
            for arm in (0, 1) if k % 2 == 0 else (1, 0):
                patch = Patch()
                if arm:
                    hooks.install(session, patch)
                steps(2)  # the switch itself is not part of the cost
                (probed if arm else plain).append(steps(BLOCK) / BLOCK)
                patch.undo()
    return plain, probed


def main() -> None:
    """One row a model."""
    rows, claims = [], []
    for name, (sizes, batch) in MODELS.items():
        plain, probed = measure(sizes, batch)
        differences = [b - a for a, b in zip(plain, probed, strict=True)]
        cost_s = statistics.median(differences)
        quartiles = statistics.quantiles(differences, n=4)
        # Spread of the median of n differences, from their quartiles.
        half = 1.96 * 1.2533 * (quartiles[2] - quartiles[0]) / 1.349 / math.sqrt(len(differences))
        step_s = statistics.median(plain)
        rows.append({"model": name, "step_s": step_s, "cost_s": cost_s, "cost_percent": 100 * cost_s / step_s})
        claims.append(
            {
                "claim": f"probe, per step of {1e3 * step_s:.2g} ms ({name})",
                "mid": 1e6 * cost_s,
                "low": 1e6 * (cost_s - half),
                "high": 1e6 * (cost_s + half),
                "unit": " us",
            }
        )
        print(claims[-1])
    results_file.write("probe_cost", results=rows, claims=claims)


if __name__ == "__main__":
    main()
