"""Steps of DDP on two processes over emulated links, which take turns. Asked by hotlap.lab.link."""

import multiprocessing
import tempfile
import time
from itertools import islice
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import FileStore
from torch.nn.parallel import DistributedDataParallel

from hotlap.lab.child import answer
from hotlap.lab.child.link import SPEEDS, EmulatedLink
from hotlap.lab.link import RANKS, Answer, Question
from hotlap.record import order

# A layer has 1 MiB of gradients, and 0.2 ms of products a sample and pass or less.
_WIDTH = 512
_BATCH = 32
# After a switch, gradients of the step before may still be in caches; and DDP rebuilds its buckets once.
_DISCARDED = 2


def main(question: Question) -> Answer:
    """Time them; this process is rank 0."""
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        context = multiprocessing.get_context("spawn")
        others = [context.Process(target=_train, args=(r, store, question), daemon=True) for r in range(1, RANKS)]
        for other in others:
            other.start()
        found = _train(0, store, question)
        for other in others:
            other.join()
    return found


def _train(rank: int, store: str, question: Question) -> Answer:
    dist.init_process_group("gloo", store=FileStore(store, RANKS), rank=rank, world_size=RANKS)
    torch.set_num_threads(1)
    speeds = [None, *SPEEDS.values()]
    link = EmulatedLink(None)
    step_s: list[tuple[tuple[float, ...], ...]] = []
    busy_s: list[tuple[float, ...]] = []
    for layers in question.mib:
        model = DistributedDataParallel(nn.Sequential(*(nn.Linear(_WIDTH, _WIDTH) for _ in range(layers))))
        model.register_comm_hook(None, link.hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        times: list[list[float]] = [[] for _ in speeds]
        busy = [0.0 for _ in speeds]
        # The same order in all processes: they switch at the same step.
        for each in islice(order.rounds(len(speeds), seed=layers), question.rounds):
            for at in each:
                link.speed = speeds[at]
                _steps(model, optimizer, _DISCARDED)
                before, begin = link.busy_s, time.perf_counter()
                _steps(model, optimizer, question.steps)
                times[at].append((time.perf_counter() - begin) / question.steps)
                busy[at] = (link.busy_s - before) / question.steps
        step_s.append(tuple(tuple(one) for one in times))
        busy_s.append(tuple(busy))
    dist.barrier()
    dist.destroy_process_group()
    return Answer(step_s=tuple(step_s), busy_s=tuple(busy_s))


def _steps(model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    for _ in range(number):
        optimizer.zero_grad()
        model(torch.randn(_BATCH, _WIDTH)).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    answer(Question, main)
