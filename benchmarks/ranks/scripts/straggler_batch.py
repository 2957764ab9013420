"""straggler: rank 1 has four times the samples of the others in each batch."""

import torch
from torch.nn.parallel import DistributedDataParallel

from ranks import STEPS, WIDTH, perceptron, start, update

rank = start()
model = DistributedDataParallel(perceptron())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(STEPS):
    update(model, optimizer, torch.randn(1024 if rank == 1 else 256, WIDTH))
