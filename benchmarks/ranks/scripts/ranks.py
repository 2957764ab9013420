"""What the scripts beside this have in common: a group of processes, one thread each, and a model under DDP."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from hotlap.lab.scripts.emulated_link import EmulatedLink, Speed

STEPS = 10_000
WIDTH = 384


def start() -> int:
    """This process's rank."""
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(dist.get_rank())
    return dist.get_rank()


def perceptron(layers: int = 6) -> nn.Module:
    """Layers of 0.6 MB each."""
    return nn.Sequential(*(part for _ in range(layers) for part in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))


def over(model: DistributedDataParallel, speed: Speed) -> DistributedDataParallel:
    """The same, its gradients sent over an emulated link."""
    model.register_comm_hook(None, EmulatedLink(speed).hook)
    return model


def update(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    """One step."""
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
