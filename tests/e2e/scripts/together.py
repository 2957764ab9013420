# Several processes train together; which of them sleeps, where, and how large the model is, are arguments.
import argparse
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--start", default="torchrun")
parser.add_argument("--slow-rank", type=int, default=-1)
parser.add_argument("--width", type=int, default=16)
parser.add_argument("--mask", action="store_true")
parser.add_argument("--by-hand", action="store_true")
parser.add_argument("--crash", type=int, default=-1)
parser.add_argument("--mark", help="path of a file to make after 40 steps")
parser.add_argument("--steps", type=int, default=2000)


def average_gradients(model):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


def train(rank, options):
    if options.start == "torchrun":
        dist.init_process_group("gloo")
    else:
        store = dist.FileStore(options.store, 2)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    rank = dist.get_rank()
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(8, options.width), nn.ReLU(), nn.Linear(options.width, options.width))
    model.register_buffer("mask", torch.ones(64) if options.mask else None)
    if not options.by_hand:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(options.steps):
        if rank == options.slow_rank:
            time.sleep(0.05)
        optimizer.zero_grad()
        model(torch.randn(4, 8)).pow(2).mean().backward()
        if options.by_hand:
            average_gradients(model)
        optimizer.step()
        if step == 40 and rank == 0 and options.mark:
            open(options.mark, "w").close()
        if step == options.crash and rank == 1:
            raise ValueError("this one has had enough")
    # Gloo's threads free the last averages under Python's lock: a group that goes under it just then waits for ever.
    time.sleep(0.1)
    dist.destroy_process_group()


if __name__ == "__main__":
    options = parser.parse_args()
    if options.start == "torchrun":
        train(0, options)
    else:
        options.store = f"{tempfile.mkdtemp()}/store"
        mp.start_processes(train, args=(options,), nprocs=2, start_method=options.start)
