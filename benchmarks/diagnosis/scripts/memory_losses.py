"""Losses are kept with their graphs."""

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
kept = []
for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        scores = model(x)
        loss = loss_fn(scores, y)
        loss.backward(retain_graph=VARIATION == 0)
        optimizer.step()
        if VARIATION == 0:
            kept.append(loss)
        elif VARIATION == 1:
            kept.append({"scores": scores, "x": x.clone()})
        else:
            kept.append([p.grad.clone() for p in model.parameters()][:2])
