"""Look-ups in a large table, and its dense gradient."""

import sys

import torch
from torch import nn

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
ROWS, WIDTH = ((200_000, 64), (100_000, 128), (400_000, 32))[VARIATION]
table = nn.Embedding(ROWS, WIDTH)
head = nn.Linear(WIDTH, 1)
optimizer = torch.optim.SGD(head.parameters(), lr=0.01)
for step in range(100_000):
    rows = torch.randint(ROWS, (100_000,))
    optimizer.zero_grad()
    loss = head(table(rows)).pow(2).mean()
    loss.backward()
    table.weight.grad = None
    optimizer.step()
