import torch
from torch import nn

model = nn.Linear(4, 1, device="meta")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 4)
model(x).sum().backward()
