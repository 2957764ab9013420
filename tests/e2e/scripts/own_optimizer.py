# The optimizer is no torch optimizer: a class of the script's own that changes `.data`.
import time

import torch
from torch import nn


class Momentum:
    def __init__(self, parameters, lr):
        self.parameters, self.lr = list(parameters), lr
        self.speed = [torch.zeros_like(p) for p in self.parameters]

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    def step(self):
        time.sleep(0.01)
        for p, v in zip(self.parameters, self.speed, strict=True):
            v.mul_(0.9).add_(p.grad)
            p.data.sub_(v, alpha=self.lr)


model = nn.Linear(6, 2)
optimizer = Momentum(model.parameters(), lr=0.01)
for _ in range(200):
    optimizer.zero_grad()
    model(torch.randn(8, 6)).pow(2).mean().backward()
    optimizer.step()
