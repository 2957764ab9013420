"""Sync-bound: after each of 20 kernels of 1 ms its value is read, and 1 ms of the host's work comes before the next."""

import time

import torch

import simulated_gpu  # noqa: F401

torch.set_num_threads(1)
weight = torch.nn.Parameter(torch.ones(8, device="sim"))
optimizer = torch.optim.SGD([weight], lr=1e-6)
x = torch.ones(8, device="sim")
for _ in range(150):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(10):
        y = (torch.ops.sim.spin(x, 1e-3) * weight).sum()
        total += y.item()  # waits
        time.sleep(0.5e-3)
    y.backward()
    optimizer.step()
