"""A model with a mask, in a group of one process, which looks for parameters that no step uses."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Masked(nn.Linear):
    """Leaves out what the mask says."""

    mask: torch.Tensor

    def __init__(self) -> None:
        super().__init__(4, 2)
        self.register_buffer("mask", torch.tensor([1.0, 0.0, 1.0, 1.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of some samples."""
        return super().forward(x * self.mask)


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
model = DistributedDataParallel(Masked(), find_unused_parameters=True)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

for _ in range(12):
    loss = model(torch.randn(16, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
