"""A recurrent net written as a loop over time."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
STEPS, WIDTH = ((100, 32), (200, 16), (60, 64))[VARIATION]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.again, self.last = nn.Linear(8, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, x):
        hidden = torch.zeros(len(x), WIDTH)
        for t in range(STEPS):
            hidden = torch.tanh(self.first(x[:, t]) + self.again(hidden))
        return self.last(hidden)


model = Recurrent()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(512, STEPS, 8), torch.randn(512, 1)), batch_size=16)
loss_fn = nn.MSELoss()
for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
