"""None of several processes: four micro-batches a step, and gradients are averaged with the last one only."""

from contextlib import nullcontext

import torch
from emulated_link import SPEEDS, EmulatedLink
from torch.nn.parallel import DistributedDataParallel

from ranks import STEPS, WIDTH, perceptron, start

start()
model = DistributedDataParallel(perceptron(), process_group=EmulatedLink(SPEEDS["100-gbit"]))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(STEPS):
    optimizer.zero_grad()
    for micro in range(4):
        with nullcontext() if micro == 3 else model.no_sync():
            loss = model(torch.randn(256, WIDTH)).square().mean() / 4
            loss.backward()
    optimizer.step()
