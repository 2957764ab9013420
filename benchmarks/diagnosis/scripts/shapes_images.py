"""Images of a new size in each step."""

import sys

import torch
from torch import nn

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(32, 64, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(64, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
SMALLEST, LARGEST = ((24, 96), (32, 72), (20, 128))[VARIATION]
for step in range(100_000):
    height, width = torch.randint(SMALLEST, LARGEST, (2,)).tolist()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(torch.randn(16, 3, height, width)), torch.randint(10, (16,)))
    loss.backward()
    optimizer.step()
