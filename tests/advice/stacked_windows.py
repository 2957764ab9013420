"""A small language model that is fed by a function of its own."""

import torch
from torch import nn

text = torch.randint(16, (500,))
length = 8


def get_batch() -> tuple[torch.Tensor, torch.Tensor]:
    ix = torch.randint(len(text) - length, (4,))
    x = torch.stack([text[i : i + length] for i in ix])
    y = torch.stack([text[i + 1 : i + length + 1] for i in ix])
    return x, y


model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x, y = get_batch()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
