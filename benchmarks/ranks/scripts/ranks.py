"""What the scripts beside this have in common: a group of processes, one thread each, and a model under DDP."""

import torch
import torch.distributed as dist
from emulated_link import SPEEDS, EmulatedLink, Speed
from torch import nn

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


def update(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    """One step."""
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


def link(name: str) -> EmulatedLink:
    """One of `SPEEDS`; "latency": 10 ms a bucket, and hardly more for its bytes."""
    return EmulatedLink({**SPEEDS, "latency": Speed(0.01, 1.25e10)}[name])


def learn(model: nn.Module, optimizer: torch.optim.Optimizer, batch: int) -> None:
    """One step of learning to shift numbers by one place."""
    x = torch.randn(batch, WIDTH)
    loss = (model(x) - x.roll(1, dims=1)).square().sum(dim=1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
