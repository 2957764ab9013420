"""communication-bound: 16 MB of gradients a step over a link of 1 Gbit/s take 0.13 s, more than the backward pass."""

import torch
from emulated_link import SPEEDS, EmulatedLink
from torch.nn.parallel import DistributedDataParallel

from ranks import STEPS, WIDTH, perceptron, start, update

start()
model = DistributedDataParallel(perceptron(28), bucket_cap_mb=2, process_group=EmulatedLink(SPEEDS["1-gbit"]))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(STEPS):
    update(model, optimizer, torch.randn(16, WIDTH))
