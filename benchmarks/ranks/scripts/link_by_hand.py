"""communication-bound: after the backward pass each of 120 gradients is sent by itself, by a call of the script's."""

import torch
import torch.distributed as dist
from torch import nn

from ranks import STEPS, WIDTH, start

start()
model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(60)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(STEPS):
    optimizer.zero_grad()
    model(torch.randn(8, WIDTH)).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
