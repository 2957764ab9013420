"""A data set that makes each step wait: 24 ms for a batch, beside about one for all else.

It trains by hand: an optimizer would import torch's compiler in each process, which takes as long as torch.
"""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)  # whatever else this machine computes, the items are what a step waits for


class Waves(Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, index):
        time.sleep(0.0015)
        return torch.sin(torch.arange(32) * (index % 13)), index % 3


torch.manual_seed(0)
loader = DataLoader(Waves(), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
loss_fn = nn.CrossEntropyLoss()
for _ in range(40):
    total = 0.0
    for x, y in loader:
        model.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(0.01 * parameter.grad)
        total += loss.item()
    print(f"loss {total / len(loader):.9f}")
