"""`batched(dataset)`: a batch of a data set that lies in memory is one gather, not a Python loop and a collate."""

from collections.abc import Callable
from typing import Any, final

import torch
from torch.utils.data import Subset, TensorDataset

from hotlap.data.item.codec import Unsupported, is_plain_tensor
from hotlap.data.loader.fetch import Batch, fetch, goes_to_default_collate, plain_positions, positions
from hotlap.data.wrapper import DatasetWrapper, check, put_in_place
from hotlap.errors import UserError

Gather = Callable[[torch.Tensor], Any]
"""(B,) positions -> what `default_collate` makes of the items there."""


@final
class BatchedDataset(DatasetWrapper):
    """What `batched` returns: the data set itself to all who look. See `batched`."""

    _hotlap_function = "batched"
    _hotlap_rows: "_Rows | None"
    _hotlap_note: str | None

    def __init__(self, dataset: Any) -> None:
        self.__dict__.update(_hotlap_dataset=dataset, _hotlap_rows=None, _hotlap_note=None)

    @property
    def note(self) -> str | None:
        """One sentence if batches are not gathered at the moment: why."""
        return self._hotlap_note

    def __getitems__(self, indices: Any) -> Any:
        if goes_to_default_collate() and isinstance(indices, list):
            index = plain_positions(indices, len(self))
            batch = None if index is None else self._hotlap_batch(indices, index)
            if batch is not None:
                return [Batch(batch[0])]
        return fetch(self._hotlap_dataset, indices)

    def _hotlap_batch(self, indices: list[int], index: torch.Tensor) -> tuple[Any] | None:
        rows = self._hotlap_rows
        gather = rows if rows is not None and rows.current() else self._hotlap_look()
        return None if gather is None else _tried(gather, index)

    def _hotlap_idle(self) -> str | None:
        return self._hotlap_note

    def _hotlap_look(self) -> Gather | None:
        """How to gather now: the script may have put other tensors into the data set."""
        gather, reason = None, None
        try:
            gather = _look(self._hotlap_dataset)
        except Unsupported as unsupported:
            reason = f"batches of {type(self._hotlap_dataset).__name__} are not gathered: {unsupported}"
        self.__dict__["_hotlap_note"] = reason
        self.__dict__["_hotlap_rows"] = gather if isinstance(gather, _Rows) else None
        return gather


@final
class _Rows:
    """Rows of a `TensorDataset`."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._tensors: tuple[torch.Tensor, ...] = dataset.tensors

    def current(self) -> bool:
        """True if it need not be looked at again: the same tensors, and still without gradients."""
        return self._dataset.tensors is self._tensors and not any([tensor.requires_grad for tensor in self._tensors])

    def __call__(self, index: torch.Tensor) -> Any:
        return [
            # How a stack of rows lies that are not dense is torch's to decide.
            rows.index_select(0, index) if rows.is_contiguous() else torch.stack([rows[k] for k in index.tolist()])
            for rows in self._tensors
        ]


def _look(dataset: Any) -> Gather:
    """`Unsupported` says why not. Exactly these classes: one derived from them may do something else for an item."""
    if type(dataset) is Subset:
        return _of_subset(dataset)
    if type(dataset) is TensorDataset and all(map(is_plain_tensor, dataset.tensors)):
        return _Rows(dataset)
    raise Unsupported("whose items are not rows of tensors in memory")


def _tried(gather: Gather, index: torch.Tensor) -> tuple[Any] | None:
    """(the batch,); None where only torch can tell what becomes of these items, be it an error."""
    try:
        return (gather(index),)
    except (Unsupported, TypeError, RuntimeError, ValueError, IndexError, AttributeError, KeyError):
        return None


def _of_subset(dataset: Any) -> Gather:
    inner, chosen, length = _look(dataset.dataset), dataset.indices, len(dataset.dataset)
    if isinstance(chosen, range):
        start, step = chosen.start, chosen.step
        return lambda index: inner(index * step + start)

    def gather(index: torch.Tensor) -> Any:
        wanted = [chosen[number] for number in index.tolist()]
        found = positions(wanted, set(map(type, wanted)), length)
        if found is None:
            raise ValueError("an index that counts from the end")
        return inner(found)

    return gather


def batched(dataset: Any) -> Any:
    """A data set whose batches are gathered from where its items lie; the same batches, many times as fast.

    `DataLoader(batched(TensorDataset(x, y)), batch_size=32, shuffle=True)`. Serves a `TensorDataset`, and a `Subset` of
    one. Nothing is copied or kept: what the script changes in its tensors is in the next batch. A collate function of
    the script's own gets the items as before, and so does any index that is no plain number.

    Arguments:
        dataset: of these classes themselves; a class derived from them may do something else for an item.

    Returns:
        The data set, to all who look. Its `note` says why batches are not gathered, where they are not.
    """
    if type(dataset) is BatchedDataset:
        return dataset
    check(BatchedDataset, dataset)
    try:
        _look(dataset)
    except Unsupported as reason:
        raise UserError(
            f"batched() got a {type(dataset).__name__}, {reason}. hotlap.data.cached serves other data sets."
        ) from None
    return put_in_place(BatchedDataset(dataset))
