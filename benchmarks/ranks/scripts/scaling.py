"""`scaling.py GBIT LAYERS MS`: DDP over an emulated link of GBIT Gbit/s, each process with a device that only waits.

A layer has 4 MB of gradients and takes MS milliseconds forward and twice that backward, in which no processor is busy:
so processes that share two cores are as fast as those that have a device each. One process alone uses no DDP.
"""

import sys
import time

import torch
import torch.distributed as dist
from emulated_link import EmulatedLink, Speed
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ranks import STEPS, start

LATENCY_S = 3e-5


class Device(torch.autograd.Function):
    """Takes its time."""

    @staticmethod
    def forward(ctx, x, seconds):
        ctx.seconds = seconds
        time.sleep(seconds)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(2 * ctx.seconds)
        return gradient, None


class Layer(nn.Module):
    """Its gradient is there when its backward pass is over."""

    def __init__(self, seconds):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1_000_000))
        self.seconds = seconds

    def forward(self, x):
        return Device.apply(x + self.weight.mean(), self.seconds)


gbit, layers, ms = (float(word) for word in sys.argv[1:])
start()
model = nn.Sequential(*(Layer(ms / 1e3) for _ in range(int(layers))))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
if dist.get_world_size() > 1:
    link = EmulatedLink(Speed(LATENCY_S, gbit * 1e9 / 8))
    model = DistributedDataParallel(model, process_group=link, gradient_as_bucket_view=True)
for _ in range(STEPS):
    loss = model(torch.randn(8)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
