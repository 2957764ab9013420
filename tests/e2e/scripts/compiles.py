# What is compiled is named on the command line, and by what.
import sys

import torch
from torch import nn


def update_all():
    optimizer.step()


what, backend = sys.argv[1:]
torch.manual_seed(0)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.layers(x)


model = Network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
counted = torch._dynamo.utils.counters
update = optimizer.step
if what == "module":
    model = torch.compile(model, backend=backend, fullgraph=True)
elif what == "in-place":
    model.compile(backend=backend, fullgraph=True)
elif what == "optimizer":
    update = torch.compile(update_all, backend=backend)


def step(x, y):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    update()
    return loss


if what == "step":
    step = torch.compile(step, backend=backend)
for k in range(200):
    x = torch.randn(16, 8)
    step(x, x.sum(1, keepdim=True))
    if k == 40:
        # Nobody who looks on may break a graph, or make it compile again and again.
        assert counted["stats"]["unique_graphs"] == {"step": 2}.get(what, 1), counted
