"""A data set that is read again at the start of each epoch."""

import io
import json
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


class Files(IterableDataset):
    def __iter__(self):
        if VARIATION == 0:
            time.sleep(0.5)
        elif VARIATION == 1:
            torch.load(io.BytesIO(saved))
            sorted(range(2_000_000), key=lambda k: k % 1000)
        else:
            json.loads(text)
        for k in range(1024):
            yield inputs[k], targets[k]


saved = io.BytesIO()
torch.save(inputs, saved)
saved = saved.getvalue()
text = json.dumps([[k, str(k)] for k in range(600_000)])
loader = DataLoader(Files(), batch_size=64)

for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
