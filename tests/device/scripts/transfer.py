"""Transfer-bound: 4 MB from pageable memory take 80 ms, the model 2 ms."""

import torch

import simulated_gpu

torch.set_num_threads(1)
simulated_gpu.set("pageable", 50e6)  # bytes/s
weight = torch.nn.Parameter(torch.ones(8, device="sim"))
optimizer = torch.optim.SGD([weight], lr=1e-6)
batch = torch.ones(1_000_000)
for _ in range(200):
    x = batch.to("sim")
    optimizer.zero_grad()
    y = (torch.ops.sim.spin(x[:8], 2e-3) * weight).sum()
    y.backward()
    optimizer.step()
