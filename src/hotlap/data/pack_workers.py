"""Items of the data set that is packed, computed by worker processes, in order."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import torch
from torch.utils.data import DataLoader, Dataset

from hotlap.errors import HotlapError, UserError

# What a worker computes at a time; each may be two such tasks ahead, which is what waits in memory.
_MOST_ITEMS = 32
_TASK_BYTES = 4 << 20


def computed(
    make: Callable[[int], Any], numbers: Sequence[int], *, num_workers: int, item_bytes: float
) -> Iterator[Any]:
    """`make(number)` for all these numbers, in their order; with no workers, here.

    Raises:
        HotlapError: what `make` raised, for the first number for which it did.
        UserError: a worker was killed.
    """
    if not num_workers:
        yield from map(make, numbers)
        return
    loader: Any = DataLoader(
        _Made(make),
        sampler=numbers,
        batch_size=max(1, min(_MOST_ITEMS, int(_TASK_BYTES / max(1.0, item_bytes)))),
        num_workers=num_workers,
        collate_fn=_as_they_are,
        multiprocessing_context="fork",  # the data set as it is here, and nothing of it sent
        generator=torch.Generator(),  # the global one is left as it is
    )
    try:
        for results in loader:
            for result in results:
                if isinstance(result, HotlapError):
                    raise result
                yield result
    except OSError as error:
        raise UserError(
            f"Worker processes cannot be used here ({error.strerror or error}). Nothing was packed."
        ) from None
    except RuntimeError as error:
        # torch/utils/data/dataloader.py, `_try_get_data`, and its handler of SIGCHLD
        if "DataLoader worker" not in str(error):
            raise
        raise UserError(
            f"A worker process ended while it computed items ({str(error).splitlines()[0]}). Nothing was packed. "
            "With fewer --workers they need less memory."
        ) from None


@final
class _Made(Dataset[Any]):
    def __init__(self, make: Callable[[int], Any]) -> None:
        self._make = make

    def __getitem__(self, number: int) -> Any:
        try:
            return self._make(number)
        except HotlapError as error:  # raised in this process it would lose its type and its words
            return error


def _as_they_are(results: list[Any]) -> list[Any]:
    return results
