"""A head is trained on a body whose parameters still require gradients."""

import torch
from torch import nn

body, head = nn.Linear(64, 64), nn.Linear(64, 8)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for _ in range(100):
    loss = head(body(torch.randn(32, 64))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
