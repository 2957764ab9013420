"""Training that looks at held-out data after each step, with gradients on."""

import torch
from torch import nn

model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 8), torch.randn(32, 1)


def validate() -> float:
    loss = nn.functional.mse_loss(model(y.expand(-1, 8)), y)  # in vain
    return loss.item()


for _ in range(3):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    print(validate())
