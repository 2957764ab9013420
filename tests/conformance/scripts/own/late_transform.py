"""Pictures that become numbers item by item."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset[Any]):
    def __init__(self, transform: Callable[[Any], Any]) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        return self.transform(torch.full((8,), index, dtype=torch.uint8)), torch.ones(1)


data = Pictures(transform=lambda picture: picture / 255)
loader = DataLoader(data, batch_size=16, shuffle=True)  # bytes
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
