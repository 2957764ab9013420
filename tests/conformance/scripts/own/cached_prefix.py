"""Random transforms behind a costly one."""

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset[Any]):
    def __init__(self, transform: nn.Sequential) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        return self.transform(torch.full((8,), index / 64)), torch.ones(1)


data = Pictures(transform=nn.Sequential(nn.ReLU(), nn.Dropout(0.1)))
loader = DataLoader(data, batch_size=16, shuffle=True)  # augmented
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
