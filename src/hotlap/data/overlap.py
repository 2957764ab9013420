"""`overlapped(dataset)`: batches travel to the device while the one before trains."""

import copy
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, final

import torch
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from hotlap.data.memory import ALLOWANCE, limit_bytes
from hotlap.data.notes import Notes
from hotlap.data.staffing import asks_at_once
from hotlap.data.stand_in import StandIn
from hotlap.data.travel import Road
from hotlap.units import size

# Batches in pinned memory at a time beside those that workers have ready: one that trains, one that travels.
NUM_ON_THE_ROAD = 2


@final
class OverlappedDataset(StandIn):
    """What `overlapped` returns: the data set itself to all who look. See `overlapped`."""

    _hotlap_function = "overlapped"
    _hotlap_outer = True
    _hotlap_notes: Notes
    _hotlap_road: Road

    def __init__(self, dataset: Any, memory_bytes: int | None = None) -> None:
        self.__dict__.update(
            _hotlap_dataset=dataset, _hotlap_notes=Notes(), _hotlap_road=Road(), _hotlap_memory=memory_bytes
        )

    @property
    def note(self) -> str | None:
        """One sentence if batches are handed out as the script has it: why."""
        return self._hotlap_notes.last

    def __getitem__(self, index: Any) -> Any:
        return self._hotlap_dataset[index]

    def _hotlap_batch(self, indices: list[int], index: Any) -> tuple[Any] | None:
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return OverlappedDataset, (self._hotlap_dataset, self._hotlap_memory)


def overlapped(dataset: Any, *, memory_bytes: int | None = None) -> Any:
    """A data set whose batches are in pinned memory, and on their way to the device before the script asks.

    `DataLoader(overlapped(train), num_workers=4)`. The first `.to(device)` or `.cuda()` of a batch tells where they go.
    From then on the copy of each batch begins when it is handed out, or, where workers have it ready, while the batch
    before it trains; on a stream of its own. The script's `.to(device)` is given that copy. A batch is a CPU tensor
    until then, and after any other use of it the copy is forgotten and made anew, so that values are always the
    script's own.

    Nothing is done without CUDA, for batches below 64 kB, and where the pinned memory (blocks are rounded up to powers
    of two) would take more than `memory_bytes`, or 80% of what is free; `note` says so.
    """
    if type(dataset) is OverlappedDataset or not hasattr(type(dataset), "__getitem__"):
        return dataset
    from hotlap.data.iterators import teach

    teach()
    return OverlappedDataset(dataset, memory_bytes)


def on_the_road(loader: Any) -> Any:
    """`iter(loader)`: that of the loader without this, whose batches are sent ahead."""
    state = loader.__dict__
    inner = state.get("_hotlap_inner")
    if inner is None or inner.dataset is not loader.dataset._hotlap_dataset:
        inner = copy.copy(loader)
        inner.__dict__.update(dataset=loader.dataset._hotlap_dataset, _iterator=None)
        state["_hotlap_inner"] = inner  # it may keep workers from epoch to epoch
    notes, road = loader.dataset._hotlap_notes, loader.dataset._hotlap_road
    if not torch.cuda.is_available():
        notes.say("batches are handed out as the script has it: there is no CUDA device to send them to")
        return inner._get_iterator()
    inner.__dict__["pin_memory"] = True
    iterator = inner._get_iterator()
    send_ahead(
        iterator,
        road,
        notes,
        looks_ahead=asks_at_once(loader.batch_sampler or loader.sampler),
        memory_bytes=loader.dataset._hotlap_memory,
    )
    return iterator


def send_ahead(iterator: Any, road: Road, notes: Notes, *, looks_ahead: bool, memory_bytes: int | None = None) -> None:
    """From now on this iterator's batches are on the road when they are handed out."""
    sender = _Sender(iterator, road, notes, looks_ahead=looks_ahead, memory_bytes=memory_bytes)
    iterator._next_data, iterator._reset = sender.next_data, sender.reset


@final
class _Sender:
    """Stands between an iterator's `__next__` and what makes its batches."""

    def __init__(self, iterator: Any, road: Road, notes: Notes, *, looks_ahead: bool, memory_bytes: int | None) -> None:
        self._iterator = weakref.ref(iterator)  # which holds this
        self._road, self._notes = road, notes
        self._looks_ahead, self._memory_bytes = looks_ahead, memory_bytes
        self._fits: bool | None = None
        self._ready: Callable[[], Any] | None = None
        """Gives the batch behind the one that was handed out, or raises the error that it met."""

    def next_data(self) -> Any:
        """As the iterator's own `_next_data`."""
        alive = self._alive()
        ready, self._ready = self._ready, None
        data = self._pull(alive) if ready is None else ready()
        if self._looks_ahead and _has_another(alive):
            self._ready = self._pulled(alive)
        return data

    def reset(self, *args: Any, **kwargs: Any) -> None:
        """As the iterator's own `_reset`: workers that are kept begin another epoch, of which no batch is ready."""
        self._ready = None
        alive = self._alive()
        type(alive)._reset(alive, *args, **kwargs)

    def _alive(self) -> Any:
        alive = self._iterator()
        assert alive is not None  # it is what calls this
        return alive

    def _pull(self, alive: Any) -> Any:
        data = type(alive)._next_data(alive)
        if self._fits is None:
            reason = _no_room(data, alive, self._memory_bytes)
            self._fits = reason is None
            if reason is not None:
                self._notes.say(reason)
        return self._road.send(data) if self._fits else data

    def _pulled(self, alive: Any) -> Callable[[], Any]:
        try:
            data = self._pull(alive)
        except Exception as error:  # the script's own, or a worker's end: it belongs to the next batch
            return partial(_raise, error)
        return lambda: data


def _raise(error: Exception) -> Any:
    raise error


def _has_another(iterator: Any) -> bool:
    """True if the next batch is there, so that asking for it waits for nobody."""
    if not isinstance(iterator, _MultiProcessingDataLoaderIter):
        return False
    wanted = iterator._task_info.get(iterator._rcvd_idx)
    return wanted is not None and len(wanted) == 2


def _no_room(data: Any, iterator: Any, memory_bytes: int | None) -> str | None:
    """Why batches like this one are not to be pinned."""
    ahead = iterator._num_workers * (getattr(iterator, "_prefetch_factor", 0) or 0)
    needed = sum(_power_of_two(tensor.nbytes) for tensor in _tensors(data)) * (NUM_ON_THE_ROAD + ahead)
    limit = limit_bytes(memory_bytes)
    if needed <= limit:
        ALLOWANCE.take(iterator, needed)
        return None
    return f"batches are handed out as they are: pinned they would take {size(needed)}, and {size(limit)} may be used"


def _power_of_two(num_bytes: int) -> int:
    """What torch's allocator of pinned memory takes for a block (aten/src/ATen/core/CachingHostAllocator.h)."""
    return 1 << max(0, num_bytes - 1).bit_length()


def _tensors(data: Any) -> list[torch.Tensor]:
    if isinstance(data, torch.Tensor):
        return [data]
    parts = list(data.values()) if isinstance(data, dict) else data if isinstance(data, list | tuple) else []
    return [tensor for part in parts for tensor in _tensors(part)]
