"""Anomaly detection left on."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
DEPTH = (8, 12, 6)[VARIATION]
model = nn.Sequential(*[layer for _ in range(DEPTH) for layer in (nn.Linear(128, 128), nn.ReLU())])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(2048, 128), torch.randn(2048, 128)), batch_size=128)
loss_fn = nn.MSELoss()
if VARIATION == 0:
    torch.autograd.set_detect_anomaly(True)
for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        if VARIATION == 2:
            with torch.autograd.detect_anomaly():
                loss = loss_fn(model(x), y)
                loss.backward()
        elif VARIATION == 1:
            loss = loss_fn(model(x), y)
            with torch.autograd.set_detect_anomaly(True):
                loss.backward()
        else:
            loss = loss_fn(model(x), y)
            loss.backward()
        optimizer.step()
