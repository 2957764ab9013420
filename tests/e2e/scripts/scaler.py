import torch
from torch import nn

model = nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=50)
for k in range(400):
    optimizer.zero_grad()
    loss = (model(torch.randn(8, 10)) ** 2).mean()
    if k % 10 == 5:
        loss = loss * float("inf")
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
