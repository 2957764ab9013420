"""Transfer-bound from pinned memory: 2 MB take 40 ms on the stream on which the model takes 5 ms."""

import torch
from torch.utils.data import DataLoader, Dataset

import simulated_gpu

torch.set_num_threads(1)
simulated_gpu.set("pinned", 50e6)  # bytes/s


class Large(Dataset):
    def __init__(self):
        self.item = torch.ones(500_000)

    def __len__(self):
        return 2000

    def __getitem__(self, index):
        return self.item


weight = torch.nn.Parameter(torch.ones(8, device="sim"))
optimizer = torch.optim.SGD([weight], lr=1e-6)
for x in DataLoader(Large(), batch_size=None, pin_memory=True):
    optimizer.zero_grad()
    y = (torch.ops.sim.spin(x.to("sim", non_blocking=True)[:8], 5e-3) * weight).sum()
    y.backward()
    optimizer.step()
