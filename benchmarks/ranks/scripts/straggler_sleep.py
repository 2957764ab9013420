"""straggler: rank 1 sleeps 60 ms in each step, as one does whose cores others use."""

import time

import torch
from torch.nn.parallel import DistributedDataParallel

from ranks import STEPS, WIDTH, perceptron, start, update

rank = start()
model = DistributedDataParallel(perceptron())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(STEPS):
    update(model, optimizer, torch.randn(64, WIDTH))
    if rank == 1:
        time.sleep(0.06)
