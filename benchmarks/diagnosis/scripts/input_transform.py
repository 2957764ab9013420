"""A data set whose transform is slow."""

import sys
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
inputs, targets = torch.randn(1024, 3, 32, 32), torch.randint(10, (1024,))
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(32, 64, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.Conv2d(64, 64, 3, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(64, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()


def transform(x):
    if VARIATION == 0:
        time.sleep(0.002)
        return x
    if VARIATION == 1:
        for _ in range(60):
            x = (x + 0.01).clamp(-3, 3).flip(-1)
        return x
    return torch.from_numpy(np.rot90(np.sort(np.fft.fft2(x.numpy()).real, axis=-1), 2, (1, 2)).copy()).float()


class Images(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 1024

    def __getitem__(self, index):
        return self.transform(inputs[index]), targets[index]


loader = DataLoader(Images(transform), batch_size=32, shuffle=True)

for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
