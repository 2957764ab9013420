"""Items that the script makes itself: costly arithmetic, then a random flip."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Chaos(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        wave = torch.linspace(0, index, 32)
        for _ in range(20):
            wave = torch.sin(wave) + torch.cos(wave)
        label = index % 3
        if torch.rand(1).item() < 0.5:
            wave = wave.flip(0)
        return wave, label


torch.manual_seed(0)
loader = DataLoader(Chaos(), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
