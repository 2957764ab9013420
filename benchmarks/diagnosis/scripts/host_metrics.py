"""Metrics computed in Python after each batch."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
inputs, targets = torch.randn(2048, 512), torch.randint(10, (2048,))
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(inputs, targets), batch_size=128, shuffle=True)
confusion = [[0] * 10 for _ in range(10)]
history = []
for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        scores = model(x)
        loss = loss_fn(scores, y)
        loss.backward()
        optimizer.step()
        if VARIATION == 0:
            for guess, truth in zip(scores.argmax(1).tolist(), y.tolist()):
                confusion[truth][guess] += 1
                history = sorted(confusion[truth][k] / max(1, sum(confusion[k])) for k in range(10))
        elif VARIATION == 1:
            for row in scores.detach():
                history = sorted(row.tolist(), reverse=True)[:5] + [float(row.max()), float(row.std())]
        else:
            history = [sum(abs(v) for v in p.detach().flatten()[:4000].tolist()) for p in model.parameters()]
