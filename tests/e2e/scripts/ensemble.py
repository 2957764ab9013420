# Four networks as one: torch.func.vmap over stacked parameters.
import torch
from torch import nn
from torch.func import functional_call, vmap

model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.1), nn.Linear(8, 1))
stacked = {name: torch.randn(4, *p.shape).mul_(0.3).requires_grad_() for name, p in model.named_parameters()}
optimizer = torch.optim.Adam(stacked.values(), lr=0.01)


def loss_of(weights, x):
    return (functional_call(model, weights, (x,)) - x.sum(1, keepdim=True)).pow(2).mean()


for _ in range(200):
    loss = vmap(loss_of, in_dims=(0, None), randomness="different")(stacked, torch.randn(8, 6)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
