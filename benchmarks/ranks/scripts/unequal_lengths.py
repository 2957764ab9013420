"""unequal-work: sequences of 16 to 512 tokens, drawn by each rank for itself; another one has most in each step."""

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ranks import STEPS, start, update

start()
model = nn.Sequential(nn.Embedding(1000, 128), nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 128))
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(STEPS):
    length = int(torch.randint(16, 512, ()))
    update(model, optimizer, torch.randint(1000, (16, length)))
