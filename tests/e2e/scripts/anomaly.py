"""A small network of many layers, with anomaly mode left on after the search for a NaN."""

import torch
from torch import nn

torch.autograd.set_detect_anomaly(True)
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(32, 32), nn.Tanh())], nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
x, y = torch.randn(1024, 32), torch.randn(1024, 1)
for _ in range(100_000):
    rows = torch.randint(0, 1024, (32,))
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
