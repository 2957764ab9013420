import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.set_num_threads(1)
net = DistributedDataParallel(nn.Linear(32, 8))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(300):
    optimizer.zero_grad()
    net(torch.randn(16, 32)).pow(2).mean().backward()
    optimizer.step()
time.sleep(0.1)  # see together.py
dist.destroy_process_group()
