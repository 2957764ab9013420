"""Too few workers for slow items."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
inputs, targets = torch.randn(2048, 512), torch.randint(10, (2048,))
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()


class Items(Dataset):
    def __len__(self):
        return 1024

    def __getitem__(self, index):
        time.sleep((0.004, 0.008, 0.010)[VARIATION])
        return inputs[index], targets[index]


loader = DataLoader(Items(), batch_size=32, shuffle=True, num_workers=(1, 1, 2)[VARIATION], persistent_workers=True)

for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
