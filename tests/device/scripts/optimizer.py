"""Optimizer-bound: Adam updates 80 parameters of 8 numbers one after the other, ten kernels each."""

import torch

import simulated_gpu  # noqa: F401

torch.set_num_threads(1)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.ones(8) for _ in range(80))

    def forward(self, x):
        return torch.stack(list(self.weights)) * x


model = Net().to("sim")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-6, foreach=False)
x = torch.ones(8, device="sim")
for _ in range(200):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
