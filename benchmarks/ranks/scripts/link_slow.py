"""communication-bound: 16 MB of gradients a step over a link of 1 Gbit/s take 134 ms, more than the backward pass."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from hotlap.lab.child.link import SPEEDS, EmulatedLink

dist.init_process_group("gloo")
torch.set_num_threads(1)
model = DistributedDataParallel(nn.Sequential(*[nn.Linear(512, 512) for _ in range(16)]), bucket_cap_mb=2)
model.register_comm_hook(None, EmulatedLink(SPEEDS["1-gbit"]).hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(10_000):
    optimizer.zero_grad()
    model(torch.randn(32, 512)).square().mean().backward()
    optimizer.step()
