"""Processes that train together, as threads of this one: each has a process group of its own, of gloo."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore, PrefixStore

# A third has no exact float: dividing by three and multiplying by a third differ.
RANKS = 3


def on_each(work: Callable[[dist.ProcessGroup, int], Any]) -> list[Any]:
    """`work(group, rank)` in all at once; that of rank 0 in this thread."""
    store = HashStore()

    def one(rank: int) -> Any:
        group, gloo = dist.ProcessGroup(store, rank, RANKS), dist.ProcessGroup.BackendType.GLOO
        group._set_default_backend(gloo)
        backend = dist.ProcessGroupGloo(PrefixStore("gloo", store), rank, RANKS, timedelta(seconds=300))
        group._register_backend(torch.device("cpu"), gloo, backend)
        return work(group, rank)

    with ThreadPoolExecutor(RANKS) as pool:
        others = [pool.submit(one, rank) for rank in range(1, RANKS)]
        return [one(0), *(other.result() for other in others)]
