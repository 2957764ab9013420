"""Host-bound: each step the script's own Python takes 80 ms, the model takes the device 2 ms."""

import time

import torch

import simulated_gpu  # noqa: F401

torch.set_num_threads(1)
model = torch.nn.Linear(8, 1).to("sim")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
x = torch.ones(4, 8, device="sim")
for _ in range(200):
    optimizer.zero_grad()
    y = model(torch.ops.sim.spin(x, 2e-3)).sum()
    y.backward()
    optimizer.step()
    time.sleep(80e-3)
