import torch
from torch import nn

model = nn.Linear(4, 1)
weight = model.weight
for step in range(100):
    if step == 3:
        raise ValueError("the third step is too much")
    model.zero_grad()
    model(torch.randn(8, 4)).mean().backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
