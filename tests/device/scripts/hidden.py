"""Nothing waits: kernels take the device 46 ms, and hide the 2 ms in which the host makes a batch."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

import simulated_gpu  # noqa: F401

torch.set_num_threads(1)


class Slow(Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, index):
        time.sleep(2e-3)
        return torch.ones(200, 200)


model = torch.nn.Linear(200, 200).to("sim")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for x in DataLoader(Slow(), batch_size=None, pin_memory=True):
    optimizer.zero_grad()
    y = model(torch.ops.sim.spin(x.to("sim", non_blocking=True), 30e-3)).sum()
    y.backward()
    optimizer.step()
