"""Items that the script makes itself: costly arithmetic, then a random flip."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        wave = torch.zeros(32)
        for harmonic in range(1, 9):
            wave += torch.sin(torch.arange(32) * harmonic * (index % 13)) / harmonic
        label = index % 3
        if torch.rand(1).item() < 0.5:
            wave = wave.flip(0)
        return wave, label


torch.manual_seed(0)
loader = DataLoader(Waves(64), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
