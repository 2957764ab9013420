"""Steps of DDP on two processes over emulated links, which take turns: `links OUT ROUNDS STEPS MIB`."""

import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import FileStore
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from hotlap.lab.link import RANKS, Answer
from hotlap.lab.scripts.emulated_link import SPEEDS, EmulatedLink
from hotlap.record import order, save

# A layer has 1 MiB of gradients, and 0.2 ms of products a sample and pass or less.
_WIDTH = 512
_BATCH = 32
# After a switch, gradients of the step before may still be in caches; and DDP rebuilds its buckets once.
_DISCARDED = 2


def train(rank: int, store: str, out: str, rounds: int, steps: int, mib: int) -> None:
    """Over each link in turns; the first process writes what came out."""
    dist.init_process_group("gloo", store=FileStore(store, RANKS), rank=rank, world_size=RANKS)
    torch.set_num_threads(1)
    speeds = [None, *SPEEDS.values()]
    link = EmulatedLink(None)
    step_s: list[list[float]] = [[] for _ in speeds]
    busy_s = [0.0 for _ in speeds]
    layers = (nn.Linear(_WIDTH, _WIDTH) for _ in range(mib))
    model = DistributedDataParallel(nn.Sequential(*layers), process_group=link)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    # The same order in all processes: they switch at the same step.
    for each in islice(order.rounds(len(speeds), seed=mib), rounds):
        for at in each:
            link.speed = speeds[at]
            _steps(model, optimizer, _DISCARDED)
            before, begin = link.busy_s, time.perf_counter()
            _steps(model, optimizer, steps)
            step_s[at].append((time.perf_counter() - begin) / steps)
            busy_s[at] = (link.busy_s - before) / steps
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        save(Answer(step_s=step_s, busy_s=busy_s), Path(out))


def _steps(model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    for _ in range(number):
        optimizer.zero_grad()
        model(torch.randn(_BATCH, _WIDTH)).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    out, *numbers = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        spawn(train, (f"{folder}/store", out, *map(int, numbers)), nprocs=RANKS)  # type: ignore[no-untyped-call]
