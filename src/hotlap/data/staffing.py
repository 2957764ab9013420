"""Workers for loaders that have none, or others: where that changes nothing but the time."""

import os
from collections.abc import Callable
from typing import Any, final

import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    default_collate,
)

from hotlap.data.long_lived import lasting
from hotlap.data.memory import ALLOWANCE, SHARE_OF_FREE, available_bytes, limit_bytes
from hotlap.data.sending import start_method
from hotlap.data.stand_in import within
from hotlap.data.tree_memory import own_bytes, tree_bytes
from hotlap.data.workers import Role, Seen, look
from hotlap.units import size

# These ask the global generators at the begin of an epoch or never, so that being asked ahead changes nothing.
_SAMPLERS = (RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler, DistributedSampler)

# Batches of a loader below which its workers are not worth their start.
LEAST_BATCHES = 4

# What a worker takes for itself beside its items: queues, their threads, and pages of Python objects that it looks at
# (14 MiB, of which a copy of the process that computes some items takes 4; torch 2.13, Linux).
WORKER_BYTES = 10 << 20

# Items that are computed in a copy of this process, to see what they do.
_NUM_LOOKED_AT = 4


@final
class Staffing:
    """Gives loaders their workers. `say` is told of each that is left alone."""

    def __init__(self, num_workers: int, prefetch_factor: int, *, say: Callable[[str], None]) -> None:
        self._num_workers = num_workers
        self._prefetch_factor = prefetch_factor
        self._say = say
        self._seen: dict[int, tuple[Any, Seen]] = {}
        self._served = False
        self._said = False

    def change(self, given: dict[str, Any]) -> dict[str, Any]:
        """Arguments of a DataLoader -> the ones that it is made with."""
        dataset = given.get("dataset")
        if not _has_items(dataset):
            return given
        if given.get("num_workers", 0) == 0 and given.get("timeout", 0):
            return given  # torch says what is wrong
        reason = self._why_not(dataset, given)
        if reason is not None:
            self._say(f"{type(dataset).__name__} is read as the script has it: {reason}")
            return given
        each, limit = self._worker_bytes(dataset, given), limit_bytes()
        num_workers = min(self._num_workers, limit // each)
        if num_workers < self._num_workers:
            number = f"by {num_workers} workers, not {self._num_workers}" if num_workers else "as the script has it"
            self._say(
                f"{type(dataset).__name__} is read {number}: a worker would take about {size(each)} of memory, and "
                f"{size(limit)} may be used"
            )
        if not num_workers:
            return given
        self._served = True
        lasts = within(dataset, lasting, outside=("overlapped",))
        if lasts is not dataset:
            ALLOWANCE.take(lasts, num_workers * each)
        return {**given, "dataset": lasts, "num_workers": num_workers, "prefetch_factor": self._prefetch_factor}

    def settled(self) -> bool:
        """True: they work at full speed from the start. Says once what they take."""
        if self._served and not self._said:
            self._said = True
            taken, free = tree_bytes(), available_bytes()
            if free < (1 - SHARE_OF_FREE) * (free + taken):
                self._say(f"with workers the training takes {size(taken)} of memory, and only {size(free)} are left")
        return True

    def _why_not(self, dataset: Any, given: dict[str, Any]) -> str | None:
        length = len(dataset)
        if length < LEAST_BATCHES * (given.get("batch_size", 1) or 1):
            return f"it has only {length} items"
        asks = given.get("batch_sampler") or given.get("sampler")
        if asks is not None and not asks_at_once(asks):
            return f"its sampler is a {type(asks).__name__}, which may depend on when it is asked"
        if given.get("num_workers", 0):
            return None  # what items do happens in workers already
        method = start_method(given.get("multiprocessing_context"))
        if method != "fork":
            return f"workers would be started by {method}, which needs a script that can be imported again"
        reason = self._look(dataset).reason
        return reason if reason is not None and "changes" in reason else None

    def _worker_bytes(self, dataset: Any, given: dict[str, Any]) -> int:
        """What one worker will take, with its batches on their way."""
        if start_method(given.get("multiprocessing_context")) != "fork":
            return max(WORKER_BYTES, own_bytes([os.getpid()]))  # it imports what this process has imported
        seen = self._look(dataset)
        batch = getattr(given.get("batch_sampler"), "batch_size", None) or given.get("batch_size", 1) or 1
        return WORKER_BYTES + seen.own_bytes + self._prefetch_factor * int(batch) * seen.item_bytes

    def _look(self, dataset: Any) -> Seen:
        """What some items do and take, seen in a copy of this process."""
        known = self._seen.get(id(dataset))
        if known is None:
            role = Role(num_workers=1, base_seed=0, init=None, collate=default_collate)
            seen = look(dataset, list(range(min(len(dataset), _NUM_LOOKED_AT))), role)
            known = self._seen[id(dataset)] = (dataset, seen)
        return known[1]


def asks_at_once(sampler: Any) -> bool:
    """True for a sampler that does not mind when it is asked for its next index."""
    return type(sampler.sampler if type(sampler) is BatchSampler else sampler) in _SAMPLERS


def _has_items(dataset: Any) -> bool:
    return (
        hasattr(type(dataset), "__getitem__")
        and hasattr(type(dataset), "__len__")
        and not isinstance(dataset, IterableDataset | torch.utils.data.MapDataPipe)
    )
