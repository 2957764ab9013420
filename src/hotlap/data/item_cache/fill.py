"""The store of a data set's items: made, found on disk, filled by other processes, and given up."""

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from hotlap import at_work
from hotlap.data.checks.forked import cannot_fork
from hotlap.data.checks.key import Key
from hotlap.data.item.compare import Unsupported
from hotlap.data.item_cache.disk import DiskCache
from hotlap.data.item_cache.fill_pool import FillPool
from hotlap.data.item_cache.folder import default_folder
from hotlap.data.item_cache.memory import limit_bytes, usable_cores
from hotlap.data.item_cache.placement import OpenStore, close_with, open_store
from hotlap.data.item_cache.progress import Progress
from hotlap.data.item_cache.store import Store

# Below this time it would take to compute all items here, starting processes for them brings nothing: a fork of a
# process with torch takes 10 to 30 ms.
FILL_LEAST_S = 0.5

# A filling that takes less is waited for: two processes that compute and a training that computes too, with more
# threads than cores, slow each other down (a small step took 3 ms in place of 0.4 ms). A longer one goes on beside it.
FILL_WAIT_S = 5.0

# What a copy of this process that computes items takes for itself: 3.7 MiB with small ones (torch 2.13, Linux).
FILLER_BYTES = 4 << 20


class CacheFill(ABC):
    """Where items are, and who computes them ahead. What may be kept at all is decided by `ItemCache`."""

    def __init__(self, dataset: Any, *, memory_bytes: int | None, disk: bool | str | Path) -> None:
        self.dataset = dataset
        self.memory_bytes = memory_bytes
        self.disk = disk
        self._key: Key | None = None
        """Of what items are made from, where the next run is to find them."""
        self.as_bytes = True
        """Pictures may be kept as bytes: not where rows are wanted elsewhere, or one was of other numbers."""
        self.note: str | None = None
        self.warm = False
        """True if the items were found on disk."""
        self._full = False
        self._process = os.getpid()
        self._store: Store | None = None
        self._opened: OpenStore | None = None
        self._pool: FillPool | None = None
        self.progress = Progress(0)
        self._own_memory = False
        self._limit_bytes = 0
        self._item_s = 0.0

    @abstractmethod
    def give_up(self, reason: str) -> None:
        """Hand out true items from now on."""

    @abstractmethod
    def _compute_ahead(self, positions: range) -> bool:
        """IN A PROCESS OF THE POOL: keep the items that are not there yet; False if no more are to be computed."""

    @abstractmethod
    def _differ(self) -> str | None:
        """What items are made from that is not as it was when the store was made; None if all is."""

    @property
    def num_cached(self) -> int:
        """Items kept now, by whichever process computed them."""
        return int(np.count_nonzero(self._present))

    @property
    def full(self) -> bool:
        """True if every item is kept."""
        return self._full or self.look_if_full()

    def look_if_full(self) -> bool:
        """Whether every item is kept now; if so, the process that made the store lets the next run find them."""
        if not self._full and self._store is not None and self._present.all():
            self._full = True
            if self._opened is not None and not self._in_copy:
                self._opened.publish(self._differ)
                self._tell(self._opened)
        return self._full

    @property
    def _present(self) -> Any:
        return self.progress.present

    @property
    def _in_copy(self) -> bool:
        """True in a process that was forked since: what it keeps elsewhere than in the store is lost with it."""
        return self._process != os.getpid()

    @property
    def _name(self) -> str:
        return type(self.dataset).__name__

    def say(self, note: str) -> None:
        """Something that the user should know."""
        self.note = note
        at_work.note(note)

    def _pays_to_share(self, length: int) -> bool:
        """True if other processes should compute items, and may."""
        return self._item_s * length > FILL_LEAST_S and usable_cores() > 1 and cannot_fork() is None

    def _open(self, items: list[Any], length: int, *, shared: bool = False) -> None:
        """Choose and make the store, if it fits into memory or on disk; `shared`: for workers."""
        self._limit_bytes = limit_bytes(self.memory_bytes)
        try:
            opened = open_store(
                items, length, limit_bytes=self._limit_bytes, own_memory=self._own_memory, key=self._key,
                disk=DiskCache(default_folder() if isinstance(self.disk, bool) else Path(self.disk)),
                as_bytes=self.as_bytes and not shared,
            )  # fmt: skip
        except Unsupported as unsupported:
            self.give_up(f"{self._name} is not kept: {unsupported}")
        except (MemoryError, RuntimeError, OSError) as error:
            self.give_up(f"{self._name} is not kept: its memory could not be had ({error})")
        else:
            self._opened, self._store = opened, opened.store
            close_with(self, opened)
            self.progress = Progress(length, full=opened.full)
            self.warm = self._full = opened.full
            self._tell(opened)

    def _leave_disk(self, items: list[Any], length: int, *, shared: bool = False) -> None:
        """Begin anew in memory: what another run left is of other items."""
        self._stop()
        self._key = None
        self._open(items, length, shared=shared)
        self.say(f"the cache of {self._name} on disk holds other items than it has now, so it is not used")

    def _fill(self, length: int) -> None:
        """Have all items computed in other processes; wait for them if that is soon done."""
        cores = min(usable_cores(), limit_bytes() // FILLER_BYTES)
        if cores < 1:
            return
        soon = self._item_s * length / cores < FILL_WAIT_S
        self._pool = FillPool(
            self._compute_ahead,
            num_items=length,
            num_processes=cores if soon else max(1, cores - 1),
            item_s=self._item_s,
            waited_for=soon,
        )
        if soon:
            self._pool.wait(2 * FILL_WAIT_S)

    def _tell(self, opened: OpenStore) -> None:
        for note in opened.notes:
            self.say(f"{self._name}: {note}")
        opened.notes.clear()

    def _stop(self) -> None:
        """End the processes that fill it, and give the file up."""
        self._end_pool()
        if self._opened is not None and not self._in_copy:
            self._opened.close()
        self._opened = None

    def _end_pool(self) -> None:
        if self._pool is not None:
            self._pool.stop()
            self._pool = None
