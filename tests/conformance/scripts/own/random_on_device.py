"""Noise that is drawn on the host in each step."""

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    noise = torch.randn(32, 8).to(device, non_blocking=True)  # (B, 8)
    loss = model(noise).square().mean()
    loss.backward()
    optimizer.step()
