"""communication-bound: four micro-batches a step over 1 Gbit/s, each of which averages all gradients."""

import torch
from emulated_link import SPEEDS, EmulatedLink
from torch.nn.parallel import DistributedDataParallel

from ranks import STEPS, WIDTH, perceptron, start

start()
model = DistributedDataParallel(perceptron(), process_group=EmulatedLink(SPEEDS["1-gbit"]))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(STEPS):
    optimizer.zero_grad()
    for _ in range(4):
        loss = model(torch.randn(32, WIDTH)).square().mean() / 4
        loss.backward()
    optimizer.step()
