"""communication-bound: a link of 100 Gbit/s with a latency of 10 ms, and a bucket for each of twelve layers."""

import torch
from emulated_link import EmulatedLink, Speed
from torch.nn.parallel import DistributedDataParallel

from ranks import STEPS, WIDTH, perceptron, start, update

start()
model = DistributedDataParallel(perceptron(12), bucket_cap_mb=0.1, process_group=EmulatedLink(Speed(0.01, 1.25e10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(STEPS):
    update(model, optimizer, torch.randn(64, WIDTH))
