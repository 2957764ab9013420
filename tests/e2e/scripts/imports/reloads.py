# torch cannot be loaded a second time; parts of it can.
import importlib
import sys

from torch import nn

import torch

try:
    importlib.reload(torch)
except RuntimeError as error:
    assert "TORCH_LIBRARY" in str(error)
sgd = importlib.reload(sys.modules["torch.optim.sgd"])

model = nn.Linear(4, 1)
optimizer = sgd.SGD(model.parameters(), lr=0.1)
for _ in range(60):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).mean().backward()
    optimizer.step()
assert nn is torch.nn
