"""`prefetched(dataset)`: batches of an iterable data set are made in a thread, while the last one trains."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, final

from torch.utils.data import IterableDataset
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

from hotlap.data.determinism import Streams, Watch
from hotlap.data.items import num_bytes
from hotlap.data.memory import ALLOWANCE, limit_bytes
from hotlap.data.notes import Notes
from hotlap.errors import UserError
from hotlap.units import size

# Batches that are made in the training thread first, and looked at: do they draw random numbers, change the data set?
NUM_WATCHED = 4

# Later on one in so many is made there again, for the same reason.
WATCH_EVERY = 64

# Batches that are ready or in the making. More would only lie there.
DEPTH = 2


@final
class PrefetchedDataset(IterableDataset[Any]):
    """What `prefetched` returns: the data set itself to all who look. See `prefetched`."""

    def __init__(self, dataset: Any, memory_bytes: int | None = None) -> None:
        self.__dict__.update(
            _hotlap_dataset=dataset, _hotlap_notes=Notes(), _hotlap_refused=False, _hotlap_making=[],
            _hotlap_memory=memory_bytes,
        )  # fmt: skip

    @property
    def note(self) -> str | None:
        """One sentence if batches are made in the training thread after all: why."""
        last: str | None = self.__dict__["_hotlap_notes"].last
        return last

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The wrapped data set's, for scripts that ask `isinstance`."""
        wrapped = self.__dict__.get("_hotlap_dataset")
        return type(self) if wrapped is None else type(wrapped)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._hotlap_dataset)

    def __len__(self) -> int:
        return len(self._hotlap_dataset)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_hotlap"):
            raise AttributeError(name)
        return getattr(self._hotlap_dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._hotlap_dataset, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return PrefetchedDataset, (self._hotlap_dataset, self._hotlap_memory)


def prefetched(dataset: Any, *, memory_bytes: int | None = None) -> Any:
    """An iterable data set whose DataLoader makes the next batches in a thread, while the script trains on this one.

    `DataLoader(prefetched(stream), batch_size=64)`. Served: loaders without workers. The batches come in the same
    order, made by the same data set and the same collate function, an error with the batch that it belongs to.

    Making batches ahead must not be seen by anybody. So the first batches, and later some of 64, are made in the
    training thread, and looked at: a data set that draws from `random`, NumPy or torch (its draws would mix with those
    of the training), that changes its own attributes, or that holds an iterator or an open file (whose position a loop
    that breaks off would find further on) is read as the script has it, and `note` says why.

    It helps where making a batch waits (for a disk or a network) or computes outside of Python's lock: NumPy, decoders.

    Arguments:
        dataset: iterable. Not changed.
        memory_bytes: the most that two batches made ahead may take; None: 80% of what is free.

    Returns:
        The data set, to all who look.
    """
    if type(dataset) is PrefetchedDataset:
        return dataset
    if not isinstance(dataset, IterableDataset):
        raise UserError(
            f"prefetched() got a {type(dataset).__name__}, which is no IterableDataset. Data sets with items are read "
            "ahead by workers: hotlap.data.lasting."
        )
    from hotlap.data.iterators import teach

    teach()
    return PrefetchedDataset(dataset, memory_bytes)


@final
class Ahead(_SingleProcessDataLoaderIter):
    """One pass over a loader without workers, a few batches ahead."""

    def __init__(self, loader: Any) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[Any]] = deque()
        self._given = 0
        self._needed_bytes = 0
        self._stand_in = loader.dataset
        # What a pass that was broken off is still making, is made before anybody reads the data set anew.
        wait(self._stand_in.__dict__["_hotlap_making"])
        dataset = loader.dataset._hotlap_dataset
        self._watch = Watch(dataset)
        reason = _holds_a_position(dataset)
        if reason is not None:
            self._refuse(reason)
        super().__init__(loader)

    def _next_data(self) -> Any:
        self._given += 1
        state = self._stand_in.__dict__
        if state["_hotlap_refused"] and not self._waiting:
            return self._next_as_written()
        if self._given <= NUM_WATCHED or (self._given % WATCH_EVERY < DEPTH + 1 and not self._waiting):
            return self._watched()
        while len(self._waiting) < DEPTH and self._given % WATCH_EVERY < WATCH_EVERY - DEPTH:
            self._waiting.append(self._thread().submit(self._make))
            self._stand_in.__dict__["_hotlap_making"] = [*self._waiting]
        if not self._waiting:
            return self._watched()
        kind, data = self._waiting.popleft().result()
        if kind is not None:
            self._close()
            raise data
        return data

    def _next_as_written(self) -> Any:
        return super()._next_data()  # type: ignore[no-untyped-call]

    def _watched(self) -> Any:
        """A batch made in this thread."""
        streams = Streams(self._watch.streams)
        before = streams.states()
        data = None
        try:
            data = self._next_as_written()
            return data
        finally:
            drawn, changed = streams.drawn(before), self._watch.changed()
            if drawn is not None:
                self._refuse(f"it draws random numbers (from {drawn})")
            elif changed is not None:
                self._refuse(f"reading it changes {changed}")
            else:
                self._make_room(data)

    def _make_room(self, data: Any) -> None:
        """For batches like this one, made ahead."""
        needed = DEPTH * num_bytes(data)
        self._needed_bytes = max(needed, self._needed_bytes)
        limit = limit_bytes(self._stand_in.__dict__["_hotlap_memory"], owner=self)
        if self._needed_bytes > limit:
            self._refuse(f"batches ahead would take {size(needed)} of memory, and {size(limit)} may be used")
        else:
            ALLOWANCE.take(self, self._needed_bytes)

    def _make(self) -> tuple[type[BaseException] | None, Any]:
        """IN THE THREAD."""
        try:
            return None, self._next_as_written()
        except BaseException as error:  # also StopIteration, which a future would not carry
            return type(error), error

    def _thread(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hotlap-batches")
        return self._pool

    def _refuse(self, reason: str) -> None:
        state = self._stand_in.__dict__
        state["_hotlap_refused"] = True
        name = type(state["_hotlap_dataset"]).__name__
        state["_hotlap_notes"].say(f"{name} is read in the training thread: {reason}")

    def _close(self) -> None:
        """Let go of the thread, and of an error that it met: its frames hold this very object."""
        self._waiting.clear()
        self._stand_in.__dict__["_hotlap_making"] = []
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def __del__(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def _holds_a_position(dataset: Any) -> str | None:
    """What in the data set goes on where it was left: an iterator, an open file."""
    if hasattr(type(dataset), "__next__"):
        return "it is its own iterator"
    for name, value in getattr(dataset, "__dict__", {}).items():
        if hasattr(type(value), "__next__"):
            return f"its attribute {name} is an iterator or an open file, which goes on where it was left"
    return None
