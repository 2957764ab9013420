"""A search for a NaN that was left in."""

import torch
from torch import nn

torch.autograd.set_detect_anomaly(True)  # where does it come from?
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 8), torch.randn(32, 1)
for _ in range(3):
    with torch.autograd.detect_anomaly(check_nan=True):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    optimizer.zero_grad()
