# A gradient penalty, a backward pass from two losses at once, and a step of one optimizer.
import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(200):
    x = torch.randn(8, 6, requires_grad=True)
    y = model(x)
    (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    penalty = (slope.norm(dim=1) - 1).pow(2).mean()
    optimizer.zero_grad()
    torch.autograd.backward([y.mean(), penalty])
    optimizer.step()
