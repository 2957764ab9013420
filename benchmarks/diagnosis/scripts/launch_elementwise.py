"""Hundreds of operators on tiny tensors."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(16))

    def forward(self, x):
        for _ in range((200, 400, 150)[VARIATION]):
            x = x * self.weight + 0.01 if VARIATION != 1 else (x + 0.001).sin()
        return (x * self.weight).sum(1)


model = Chain()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(torch.randn(256, 16), torch.randn(256)), batch_size=8)
loss_fn = nn.MSELoss()
for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
