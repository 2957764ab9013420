"""Elementwise operators over large tensors."""

import sys

import torch
from torch import nn

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
ROWS = (2_000_000, 4_000_000, 3_000_000)[VARIATION]


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(())), nn.Parameter(torch.zeros(()))

    def forward(self, x):
        for _ in range(3):
            x = x * 0.99 + self.bias if VARIATION != 2 else torch.relu(x - 0.01) + 0.5 * x
        return x + self.bias


model = Scale()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(ROWS)
for step in range(100_000):
    optimizer.zero_grad()
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
