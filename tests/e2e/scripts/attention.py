"""A small transformer that writes out its attention."""

import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, w = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
        weights = torch.softmax(scores, dim=-1)
        mixed = weights @ v
        return self.out(mixed.transpose(1, 2).reshape(b, t, w))


torch.manual_seed(0)
model = nn.Sequential(Attention(64, 4), nn.LayerNorm(64), Attention(64, 4), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(4, 256, 64), torch.randn(4, 256, 1)
for _ in range(100_000):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
