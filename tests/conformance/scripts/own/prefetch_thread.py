"""A stream, read while nothing trains."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        for number in range(64):
            yield torch.full((8,), float(number))


loader = DataLoader(Stream(), batch_size=16)  # in the training thread
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
