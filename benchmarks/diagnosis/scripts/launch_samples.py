"""The model is called for one sample at a time, or one part at a time."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
model = nn.Sequential(*[layer for _ in range((3, 6, 2)[VARIATION]) for layer in (nn.Linear(32, 32), nn.Tanh())])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(1024, 32), torch.randn(1024, 32)), batch_size=(32, 16, 64)[VARIATION])
loss_fn = nn.MSELoss()
for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.stack([loss_fn(model(a), b) for a, b in zip(x, y)]).mean()
        loss.backward()
        optimizer.step()
