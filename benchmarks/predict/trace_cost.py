"""What tracing costs -> results/trace.json: seconds of a traced step over those of a plain one, on the CPU."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch import nn

from hotlap.predict import trace

RESULTS = Path(__file__).with_name("results") / "trace.json"


def seconds(*steps: Callable[[], object], repeats: int = 11) -> list[float]:
    """Median time of each; in turns, so that other work on the machine falls on all alike."""
    times: list[list[float]] = [[] for _ in steps]
    for _ in range(repeats):
        for spent, step in zip(times, steps, strict=True):
            begin = time.perf_counter()
            step()
            spent.append(time.perf_counter() - begin)
    return [median(spent) for spent in times]


def main() -> None:
    layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True, dropout=0.0)
    mlp = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    convolutions = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(9216, 10),
    )  # fmt: skip
    models = {
        "mlp": (mlp, torch.randn(64, 784)),
        "convolutions": (convolutions, torch.randn(64, 1, 28, 28)),
        "transformer": (nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), torch.randn(16, 64, 128)),
    }
    found = {}
    for name, (net, batch) in models.items():
        optimizer = torch.optim.Adam(net.parameters())

        def step(net: nn.Module = net, batch: torch.Tensor = batch, optimizer: torch.optim.Optimizer = optimizer):
            optimizer.zero_grad()
            net(batch).square().mean().backward()
            optimizer.step()

        step()
        plain_s, traced_s = seconds(step, lambda step=step, net=net: trace.record(step, parameters=net.parameters()))
        found[name] = {"plain_s": plain_s, "traced_s": traced_s, "ratio": round(traced_s / plain_s, 1)}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
