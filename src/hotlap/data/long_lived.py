"""`lasting(dataset)`: worker processes that live on from one epoch to the next, and nobody can tell."""

from typing import Any, final

from torch.utils.data import IterableDataset

from hotlap.data.cache import CachedDataset
from hotlap.data.gathering import BatchedDataset
from hotlap.data.notes import Notes
from hotlap.data.stand_in import StandIn, refuse_stacked
from hotlap.errors import UserError


@final
class LastingDataset(StandIn):
    """What `lasting` returns: the data set itself to all who look. See `lasting`."""

    _hotlap_function = "lasting"
    _hotlap_outer = True
    _hotlap_notes: Notes
    _hotlap_memory: int | None
    _hotlap_begins_late: bool
    """Workers are started, and the sampler is asked, with the first batch: as a loader without workers has it."""

    def __init__(self, dataset: Any, memory_bytes: int | None = None) -> None:
        self.__dict__.update(
            _hotlap_dataset=dataset, _hotlap_notes=Notes(), _hotlap_memory=memory_bytes, _hotlap_begins_late=False
        )

    @property
    def note(self) -> str | None:
        """One sentence if its workers are started anew each epoch after all: why."""
        return self._hotlap_notes.last

    def __getitem__(self, index: Any) -> Any:
        return self._hotlap_dataset[index]

    def _hotlap_batch(self, indices: list[int], index: Any) -> tuple[Any] | None:
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return LastingDataset, (self._hotlap_dataset, self._hotlap_memory)


def lasting(dataset: Any, *, memory_bytes: int | None = None) -> Any:
    """A data set whose DataLoader keeps its workers from epoch to epoch, with the seeds that new ones would have.

    `DataLoader(lasting(train), num_workers=4)`. `persistent_workers=True` saves the same starts, but changes what a
    script draws: torch then takes one number less from its generator each epoch (so that the next order of samples is
    another one), and workers go on with the random states that the last epoch left them. Here the number is drawn, and
    every worker is seeded with it and calls `worker_init_fn`, epoch by epoch, as a new process would.

    New workers also see the data set as the main process has it. So workers are kept only while nothing has changed:
    neither here (attributes, transforms, globals that `__getitem__` uses, entries of containers, bytes of arrays) nor
    in a worker, which is asked at the begin of each epoch. An attribute that was None and now holds an open file or the
    like is no change. If something did change, new workers are started, as the script would have it.

    Workers that are started by `spawn` or `forkserver` see what they are sent, not what the main process has. They are
    kept while that is the same, byte for byte, and has not changed in them.

    Served: map-style data sets. All others, and loaders without workers, are as if this were not.

    Arguments:
        dataset: map-style. Not changed.
        memory_bytes: the most that workers which stay may take for themselves; None: 80% of what is free. Those that
            take more at the end of an epoch are ended, as the script would have it.

    Returns:
        The data set, to all who look.
    """
    if isinstance(dataset, LastingDataset | CachedDataset | BatchedDataset):
        return dataset
    if isinstance(dataset, StandIn) and type(dataset)._hotlap_outer:
        refuse_stacked("lasting", dataset)
    if isinstance(dataset, IterableDataset) or not hasattr(type(dataset), "__getitem__"):
        raise UserError(
            f"lasting() got a {type(dataset).__name__}, which has no items to look up by number. "
            "Give it a map-style data set: one with __getitem__ and __len__."
        )
    from hotlap.data.iterators import teach

    teach()
    return LastingDataset(dataset, memory_bytes)
