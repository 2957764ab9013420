"""Sync-bound: the loss is read after each step, to add it up, and the next one takes the host 10 ms to prepare."""

import time

import torch

import simulated_gpu  # noqa: F401

torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Linear(8, 1).to("sim")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
data = torch.randn(4096, 8, device="sim")
target = data.sum(1, keepdim=True)
for epoch in range(20):
    total = 0.0
    for step in range(128):
        time.sleep(10e-3)
        i = step * 32
        optimizer.zero_grad()
        out = model(torch.ops.sim.spin(data[i : i + 32], 10e-3))
        loss = torch.nn.functional.mse_loss(out, target[i : i + 32])
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(epoch, total)
