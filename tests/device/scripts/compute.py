"""Compute-bound: the model takes the device 20 ms forward and 40 ms backward, and the host runs ahead of it."""

import torch

import simulated_gpu  # noqa: F401

torch.set_num_threads(1)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8))

    def forward(self, x):
        y = torch.ops.sim.spin(x, 20e-3) * self.weight
        y.register_hook(lambda gradient: torch.ops.sim.spin(gradient, 40e-3))
        return y


model = Net().to("sim")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
x = torch.ones(8, device="sim")
for _ in range(200):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
