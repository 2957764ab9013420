"""Sentences of every length, padded to the longest of their batch."""

from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

PAD = 0


class Tagger(nn.Module):
    """A label for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 8, padding_idx=PAD)
        self.head = nn.Linear(8, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:  # (B, T) -> (B, T, 4)
        """Token by token."""
        return self.head(self.embedding(tokens))  # type: ignore[no-any-return]


def collate(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Two on one line, each with a padding of its own."""
    tokens, tags = [token for token, _ in pairs], [tag for _, tag in pairs]
    return pad_sequence(tokens, True, PAD), pad_sequence(tags, batch_first=True, padding_value=-100)  # (B, T)


lengths = torch.randint(3, 90, (256,)).tolist()
items = [(torch.randint(1, 30, (length,)), torch.randint(0, 4, (length,))) for length in lengths]
loader: DataLoader[Any] = DataLoader(items, batch_size=8, shuffle=True, collate_fn=collate)  # type: ignore[arg-type]
model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss(ignore_index=-100)
for _ in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x).reshape(-1, 4), y.reshape(-1))
        loss.backward()
        optimizer.step()
