"""A small transformer that writes its attention out, in float32."""

import os

import torch
from torch import nn
from torch.nn import functional

device = torch.device(os.environ.get("HOTLAP_DEVICE", "cuda"))
length, width, heads = 128, 256, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.register_buffer("mask", torch.ones(length, length).tril().view(1, 1, length, length))

    def forward(self, x):
        batch, steps, _ = x.shape
        q, k, v = self.qkv(self.before(x)).split(width, dim=2)
        q = q.view(batch, steps, heads, width // heads).transpose(1, 2)
        k = k.view(batch, steps, heads, width // heads).transpose(1, 2)
        v = v.view(batch, steps, heads, width // heads).transpose(1, 2)
        weights = (q @ k.transpose(-2, -1)) * (width // heads) ** -0.5
        weights = weights.masked_fill(self.mask[:, :, :steps, :steps] == 0, float("-inf"))
        weights = functional.softmax(weights, dim=-1)
        y = (weights @ v).transpose(1, 2).contiguous().view(batch, steps, width)
        x = x + self.out(y)
        return x + self.feed(self.between(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(100, width)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(width, 100)

    def forward(self, x):
        return self.head(self.blocks(self.tokens(x)))


def main():
    torch.manual_seed(0)
    text = torch.randint(100, (64, length + 1)).to(device)
    net = Net().to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for _ in range(1000):
        rows = text[torch.randint(64, (16,))]
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(net(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
