"""Each batch is padded to its own longest sequence."""

import sys

import torch
from torch import nn

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
if VARIATION == 2:
    model = nn.LSTM(32, 64, batch_first=True)
else:
    model = nn.Sequential(nn.Conv1d(32, 128, 5, padding=2), nn.ReLU(), nn.Conv1d(128, 64, 5, padding=2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
LONGEST = (400, 200, 300)[VARIATION]
for step in range(100_000):
    length = int(torch.randint(20, LONGEST, ()))
    x = torch.randn(32, length, 32) if VARIATION == 2 else torch.randn(32, 32, length)
    optimizer.zero_grad()
    result = model(x)
    loss = (result[0] if VARIATION == 2 else result).pow(2).mean()
    loss.backward()
    optimizer.step()
