import torch
from torch import nn
from torch.profiler import profile

model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with profile() as profiler:
    for _ in range(60):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
assert profiler.key_averages()
