import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    if step == 3:
        raise ValueError("the third step is too much")
    optimizer.zero_grad()
    model(torch.randn(8, 4)).mean().backward()
    optimizer.step()
