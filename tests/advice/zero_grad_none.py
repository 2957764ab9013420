"""Gradients filled with zeros, as old tutorials do it."""

import torch
from torch import nn

model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 8), torch.randn(32, 1)
for _ in range(3):
    optimizer.zero_grad(set_to_none=False)  # zeros
    model.zero_grad(False)
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
