"""An autoencoder that keeps its losses as numbers and saves itself now and then."""

import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 64), nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 784)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(4096, 784)), batch_size=256, shuffle=True)
losses = []
for epoch in range(10_000):
    for (x,) in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if epoch % 20 == 0:
        torch.save(model.state_dict(), Path(tempfile.gettempdir()) / "autoencoder.pt")
