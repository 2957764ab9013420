"""A small network is trained through a large one that no optimizer has, and that nobody has frozen."""

import torch
from torch import nn

torch.manual_seed(0)
features = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 64))
model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 64))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(20_000):
    noise, target = torch.randn(256, 32), torch.randn(256, 64)
    with torch.no_grad():
        wanted = features(target)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(features(model(noise)), wanted)
    loss.backward()
    optimizer.step()
