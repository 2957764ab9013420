"""Compute-bound: a model that is a function takes the device 20 ms forward and 40 ms backward, in no module's call."""

import torch

import simulated_gpu  # noqa: F401

torch.set_num_threads(1)

weight = torch.ones(8, device="sim", requires_grad=True)


def model(x):
    y = torch.ops.sim.spin(x, 20e-3) * weight
    y.register_hook(lambda gradient: torch.ops.sim.spin(gradient, 40e-3))
    return y


optimizer = torch.optim.SGD([weight], lr=1e-6)
x = torch.ones(8, device="sim")
for _ in range(200):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
