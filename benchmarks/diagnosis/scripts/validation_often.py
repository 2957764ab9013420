"""A validation that comes too often: after every step, after each fifth, or on all data after each short epoch."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
inputs, targets = torch.randn(6000, 64), torch.randint(10, (6000,))
model = nn.Sequential(
    nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(inputs[:1280], targets[:1280]), batch_size=64, shuffle=True)
held_out = DataLoader(TensorDataset(inputs, targets), batch_size=500)


def evaluate():
    model.eval()
    right = 0
    with torch.no_grad():
        if VARIATION == 0:
            right = (model(inputs[-2000:]).argmax(1) == targets[-2000:]).sum().item()
        else:
            for x, y in held_out:
                right += (model(x).argmax(1) == y).sum().item()
    model.train()
    return right


step = 0
for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        if VARIATION == 0 or (VARIATION == 1 and step % 5 == 0):
            evaluate()
        step += 1
    if VARIATION == 2:
        evaluate()
