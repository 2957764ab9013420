"""Two blocks whose activations are computed a second time in the backward pass."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

first, second, model = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters(), *model.parameters()], lr=0.01)

for _ in range(12):
    optimizer.zero_grad()
    y = checkpoint(first, torch.randn(16, 4), use_reentrant=False)
    y = checkpoint(lambda one: torch.relu(second(one)), y, use_reentrant=False)
    loss = model(y).pow(2).mean()
    loss.backward()
    optimizer.step()
