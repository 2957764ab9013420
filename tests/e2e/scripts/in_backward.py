# Each parameter has an optimizer of its own, which steps as soon as its gradient is there.
import torch
from torch import nn

model = nn.Sequential(*[nn.Linear(6, 6) for _ in range(10)])
optimizers = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}


def update(p):
    optimizers[p].step()
    optimizers[p].zero_grad()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(update)
for _ in range(200):
    model(torch.randn(8, 6)).pow(2).mean().backward()
