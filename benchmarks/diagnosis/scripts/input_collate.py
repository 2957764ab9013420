"""A collate function that works number by number."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
inputs, targets = torch.randn(2048, 512), torch.randint(10, (2048,))
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()


def collate(items):
    if VARIATION == 0:
        rows = [[float(v) for v in x] for x, _ in items]
        return torch.tensor(rows), torch.stack([y for _, y in items])
    if VARIATION == 1:
        time.sleep(0.05)
        return torch.stack([x for x, _ in items]), torch.stack([y for _, y in items])
    x = items[0][0][None]
    for other, _ in items[1:]:
        x = torch.cat([x.clone(), other.sort().values[None]])
        sum(k for k in range(10_000))
    return x, torch.stack([y for _, y in items])


loader = DataLoader(TensorDataset(inputs, targets), batch_size=64, shuffle=True, collate_fn=collate)

for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
