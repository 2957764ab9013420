"""A small transformer that writes out its attention."""

import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.drop = nn.Dropout(0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)  # each (B, T, W)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))  # (B, T, T)
        weights = self.drop(torch.softmax(scores, dim=-1))
        out: torch.Tensor = (weights @ v).relu()  # the values
        return out


model = nn.Sequential(Attention(16), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(8, 12, 16), torch.randn(8, 12, 1)
for _ in range(3):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
