"""accumulation-syncs: a discriminator's losses of real and of made samples go backward apart, each with an exchange."""

import torch
from emulated_link import SPEEDS, EmulatedLink
from torch.nn.parallel import DistributedDataParallel

from ranks import STEPS, WIDTH, perceptron, start

start()
model = DistributedDataParallel(perceptron(), process_group=EmulatedLink(SPEEDS["1-gbit"]))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
for _ in range(STEPS):
    optimizer.zero_grad()
    (1 - model(torch.randn(32, WIDTH))).relu().mean().backward()
    (1 + model(torch.rand(32, WIDTH))).relu().mean().backward()
    optimizer.step()
