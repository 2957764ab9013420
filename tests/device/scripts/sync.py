"""Sync-bound: after each of 5 kernels of 8 ms its value is read, and 8 ms pass on the host before the next."""

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
    for _ in range(5):
        y = (torch.ops.sim.spin(x, 8e-3) * weight).sum()
        total += y.item()  # waits
        time.sleep(8e-3)
    y.backward()
    optimizer.step()
