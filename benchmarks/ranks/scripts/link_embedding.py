"""communication-bound: the gradient of an embedding of 8 MB is sent whole over 1 Gbit/s, though few rows were used."""

import torch
from emulated_link import SPEEDS, EmulatedLink
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ranks import STEPS, WIDTH, start, update

start()
model = nn.Sequential(nn.EmbeddingBag(5000, WIDTH), nn.Linear(WIDTH, 64))
model = DistributedDataParallel(model, process_group=EmulatedLink(SPEEDS["1-gbit"]))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(STEPS):
    update(model, optimizer, torch.randint(5000, (32, 16)))
