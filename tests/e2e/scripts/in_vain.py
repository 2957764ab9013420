"""A small network that is looked at on held-out data after each step, with gradients and in training mode."""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.Tanh())], nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
x, y = torch.randn(1024, 64), torch.randn(1024, 1)
best = float("inf")
for _ in range(100_000):
    rows = torch.randint(0, 1024, (16,))
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
    held_out = nn.functional.mse_loss(model(x[:128]), y[:128])
    best = min(best, held_out.item())
