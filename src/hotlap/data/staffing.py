"""Workers for loaders that have none, or others: where that changes nothing but the time."""

import os
from collections.abc import Callable
from functools import partial
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

from hotlap.data.long_lived import LastingDataset, lasting
from hotlap.data.memory import ALLOWANCE, SHARE_OF_FREE, available_bytes, limit_bytes
from hotlap.data.recent import Recent
from hotlap.data.sending import start_method
from hotlap.data.stand_in import within
from hotlap.data.tree_memory import own_bytes, tree_bytes
from hotlap.data.workers import Role, Seen, look
from hotlap.units import size

# These ask the global generators at the begin of an epoch or never, so that being asked ahead changes nothing.
_SAMPLERS = (RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler, DistributedSampler)

# Arguments of a loader that mean something for workers alone; without any, torch refuses them.
_FOR_WORKERS = ("timeout", "prefetch_factor", "persistent_workers", "multiprocessing_context")

# torch's own default.
_PREFETCH_FACTOR = 2

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

    def __init__(
        self, num_workers: int, prefetch_factor: int | None, *, say: Callable[[str], None], exact: bool = False
    ) -> None:
        """`prefetch_factor`: None leaves the script's. `exact`: what draws random numbers for a batch is left alone."""
        self._num_workers = num_workers
        self._prefetch_factor = prefetch_factor
        self._exact = exact
        self._say = say
        # Of each data set: what was seen under which collate and worker_init_fn, held so that their ids stay their own.
        self._seen: Recent[dict[tuple[int, int], tuple[Any, Any, Seen]]] = Recent()
        self._served = False
        self._said = False

    def change(self, given: dict[str, Any]) -> dict[str, Any]:
        """Arguments of a DataLoader -> the ones that it is made with."""
        dataset = given.get("dataset")
        if not _has_items(dataset):
            return given
        if not given.get("num_workers", 0) and any(given.get(name) for name in _FOR_WORKERS):
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
        return self._staffed(given, num_workers, num_bytes=num_workers * each)

    def _staffed(self, given: dict[str, Any], num_workers: int, *, num_bytes: int) -> dict[str, Any]:
        """The arguments with so many workers, which take these bytes."""
        dataset, has_none = given["dataset"], not given.get("num_workers", 0)
        lasts = within(dataset, partial(self._lasting, begins_late=has_none), outside=("overlapped",))
        if lasts is not dataset:
            ALLOWANCE.take(lasts, num_bytes)
        changed = {**given, "dataset": lasts, "num_workers": num_workers}
        if self._prefetch_factor is not None:
            changed["prefetch_factor"] = self._prefetch_factor
        if has_none and "in_order" in given:
            changed["in_order"] = True  # without workers batches come in order whatever it says
        return changed

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
        if given.get("shuffle") and given.get("generator") is not None:
            return "its order is drawn from a generator of its own, once more at its end, which workers reach sooner"
        method = start_method(given.get("multiprocessing_context"))
        if given.get("num_workers", 0):
            # What items do happens in workers already; their number matters where each is told to read otherwise.
            reason = self._look(dataset, given).reason if given.get("worker_init_fn") and method == "fork" else None
            return reason if reason is not None and "worker_init_fn" in reason else None
        if method != "fork":
            return f"workers would be started by {method}, which needs a script that can be imported again"
        reason = self._look(dataset, given).reason
        matters = ("changes", "draws", "different") if self._exact else ("changes",)
        return reason if reason is not None and any(word in reason for word in matters) else None

    def _worker_bytes(self, dataset: Any, given: dict[str, Any]) -> int:
        """What one worker will take, with its batches on their way."""
        if start_method(given.get("multiprocessing_context")) != "fork":
            return max(WORKER_BYTES, own_bytes([os.getpid()]))  # it imports what this process has imported
        seen = self._look(dataset, given)
        batch = getattr(given.get("batch_sampler"), "batch_size", None) or given.get("batch_size", 1) or 1
        prefetch_factor = self._prefetch_factor or given.get("prefetch_factor") or _PREFETCH_FACTOR
        return WORKER_BYTES + seen.own_bytes + prefetch_factor * int(batch) * seen.item_bytes

    def _lasting(self, dataset: Any, *, begins_late: bool) -> Any:
        lasts = lasting(dataset)
        if type(lasts) is LastingDataset:
            lasts.__dict__["_hotlap_begins_late"] = begins_late
        return lasts

    def _look(self, dataset: Any, given: dict[str, Any]) -> Seen:
        """What some items do and take, seen in a copy of this process."""
        collate, init = given.get("collate_fn") or default_collate, given.get("worker_init_fn")
        cases = self._seen.get(dataset, lambda _: {})
        known = cases.get((id(collate), id(init)))
        if known is None:
            role = Role(1, 0, init=init, collate=collate, timeout_s=given.get("timeout", 0))
            seen = look(dataset, list(range(min(len(dataset), _NUM_LOOKED_AT))), role)
            known = cases[id(collate), id(init)] = (collate, init, seen)
        return known[-1]


def asks_at_once(sampler: Any) -> bool:
    """True for a sampler that does not mind when it is asked for its next index."""
    if type(sampler) is BatchSampler:
        sampler = sampler.sampler
    if type(sampler) is RandomSampler and sampler.generator is not None:
        return False  # it draws as it goes on, and once more when it gets to its end
    return type(sampler) in _SAMPLERS


def _has_items(dataset: Any) -> bool:
    return (
        hasattr(type(dataset), "__getitem__")
        and hasattr(type(dataset), "__len__")
        and not isinstance(dataset, IterableDataset | torch.utils.data.MapDataPipe)
    )
