"""A huge embedding table updated densely by Adam."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
ROWS = (200_000, 400_000, 300_000)[VARIATION]
model = nn.Sequential(nn.EmbeddingBag(ROWS, 16), nn.Linear(16, 1))
optimizer = (torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop)[VARIATION](model.parameters())
loader = DataLoader(TensorDataset(torch.randint(ROWS, (4096, 8)), torch.randn(4096, 1)), batch_size=64)
loss_fn = nn.MSELoss()
for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
