"""straggler: rank 0 computes a metric in Python after each step, and the others wait for it."""

import torch
from torch.nn.parallel import DistributedDataParallel

from ranks import STEPS, WIDTH, perceptron, start, update


def histogram(values):
    counts = {}
    for value in values:
        key = round(value, 2)
        counts[key] = counts.get(key, 0) + 1
    return counts


rank = start()
model = DistributedDataParallel(perceptron())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(STEPS):
    update(model, optimizer, torch.randn(64, WIDTH))
    if rank == 0:
        histogram(next(model.parameters()).flatten()[:100_000].tolist())
