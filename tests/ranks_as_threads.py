"""Processes that train together, as threads of this one: each has a process group of its own, of gloo."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore, PrefixStore

VARIABLE = "HOTLAP_TESTS_MAKE_GROUPS"

# Groups leave sockets open until some thread closes them, and nothing forks beside an open socket: in a worker that has
# other tests to run, those of caches would see it.
in_own_process = pytest.mark.skipif(
    VARIABLE not in os.environ, reason="makes process groups: tests/unit/test_process_groups.py runs it by itself"
)

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
