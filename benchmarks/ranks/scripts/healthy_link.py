"""None of several processes: equal work, and a link of 100 Gbit/s."""

import torch
from emulated_link import SPEEDS, EmulatedLink
from torch.nn.parallel import DistributedDataParallel

from ranks import STEPS, WIDTH, perceptron, start, update

start()
model = DistributedDataParallel(perceptron(), process_group=EmulatedLink(SPEEDS["100-gbit"]))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(STEPS):
    update(model, optimizer, torch.randn(1024, WIDTH))
