"""Launch-bound: some 600 kernels of 5 us a step, each of which the host needs 10 us or more to launch."""

import torch

import simulated_gpu  # noqa: F401

torch.set_num_threads(1)


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8))

    def forward(self, y):
        for _ in range(100):
            y = torch.tanh(y * self.weight)
        return y.sum()


model = Recurrent().to("sim")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
x = torch.ones(8, device="sim")
for _ in range(400):
    optimizer.zero_grad()
    model(x).backward()
    optimizer.step()
