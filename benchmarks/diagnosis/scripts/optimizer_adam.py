"""Adam over hundreds of tiny tensors."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
model = nn.Sequential(
    *[layer for _ in range((60, 100, 40)[VARIATION]) for layer in (nn.LayerNorm(16), nn.Linear(16, 16))]
)
OPTIMIZER = (torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam)[VARIATION]
optimizer = OPTIMIZER(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(torch.randn(2048, 16), torch.randn(2048, 16)), batch_size=64)
loss_fn = nn.MSELoss()
for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
