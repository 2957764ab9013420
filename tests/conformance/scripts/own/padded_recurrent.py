"""Readings of every length, packed for a GRU that looks at them both ways."""

from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader


class Judge(nn.Module):
    """One number for each sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(3, 8, bidirectional=True)
        self.head = nn.Linear(16, 1)

    def forward(self, readings: Any) -> torch.Tensor:  # packed -> (B, 1)
        """From the last states of both directions."""
        _, last = self.gru(readings)
        return self.head(last.transpose(0, 1).flatten(1))  # type: ignore[no-any-return]


def collate(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[Any, torch.Tensor]:
    """Packed, in the order in which they were drawn."""
    readings, targets = zip(*pairs, strict=True)
    return pack_sequence(list(readings), enforce_sorted=False), torch.stack(targets)


lengths = torch.randint(3, 20, (128,)).tolist()
items = [(torch.randn(length, 3), torch.randn(1)) for length in lengths]
loader: DataLoader[Any] = DataLoader(items, batch_size=8, shuffle=True, collate_fn=collate)  # type: ignore[arg-type]
model = Judge()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
