"""An optimizer of the script's own, slow in one way or another."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
inputs, targets = torch.randn(2048, 512), torch.randint(10, (2048,))
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))


class Slow(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 0.01})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if VARIATION == 0:
                    p.copy_(torch.from_numpy(p.numpy() - group["lr"] * p.grad.numpy().astype("float64")))
                    sum(k * k for k in range(20_000))
                elif VARIATION == 1:
                    for row, grad in zip(p, p.grad):
                        row -= group["lr"] * grad
                else:
                    p -= group["lr"] * p.grad.double().sort().values.float().flip(-1)


optimizer = Slow(model.parameters())
loss_fn = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(inputs, targets), batch_size=128, shuffle=True)
for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
