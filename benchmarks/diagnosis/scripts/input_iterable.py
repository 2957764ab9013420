"""A stream that is read line by line."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
inputs, targets = torch.randn(2048, 512), torch.randint(10, (2048,))
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()


class Stream(IterableDataset):
    def __iter__(self):
        for k in range(2048):
            if VARIATION == 0:
                time.sleep(0.001)
            else:
                ",".join(str(v) for v in range((0, 1500, 3000)[VARIATION])).split(",")
            yield inputs[k], targets[k]


loader = DataLoader(Stream(), batch_size=64)

for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
