import torch
from torch import nn

model = nn.Linear(10, 1)
optimizer = torch.optim.AdamW(model.parameters())
for k in range(1600):
    loss = (model(torch.randn(8, 10)) ** 2).mean() / 4
    loss.backward()
    if k % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
