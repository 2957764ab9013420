"""A head is trained on what a frozen body makes of each sample."""

import torch
from torch import nn

body, head = nn.Linear(64, 4096), nn.Linear(4096, 8)
body.requires_grad_(False)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for _ in range(100):
    features = body(torch.randn(32, 64))
    loss = head(features).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
