"""Input-bound: a batch takes the host 80 ms, the model takes the device 2 ms."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

import simulated_gpu  # noqa: F401

torch.set_num_threads(1)


class Slow(Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, index):
        time.sleep(20e-3)
        return torch.ones(8)


weight = torch.nn.Parameter(torch.ones(8, device="sim"))
optimizer = torch.optim.SGD([weight], lr=1e-6)
for x in DataLoader(Slow(), batch_size=4):
    optimizer.zero_grad()
    y = (torch.ops.sim.spin(x.to("sim"), 2e-3) * weight).sum()
    y.backward()
    optimizer.step()
