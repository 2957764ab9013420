# A validation that is ten times as long as its epoch, and whose items take as long as those of the training.
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)


class Training(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        time.sleep(0.001)  # trains
        return torch.ones(8)


class HeldOut(Dataset):
    def __len__(self):
        return 200

    def __getitem__(self, index):
        time.sleep(0.001)  # validates
        return torch.ones(8)


model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
training, held_out = DataLoader(Training(), batch_size=2), DataLoader(HeldOut(), batch_size=20)
for _ in range(100):
    for x in training:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    with torch.no_grad():
        for x in held_out:
            model(x)
