"""`batched(dataset)`: a batch of a data set that lies in memory is one gather, not a Python loop and a collate."""

from typing import Any, final

import torch
from torch.utils.data import Subset, TensorDataset

from hotlap.data.item.codec import is_plain_tensor
from hotlap.data.loader.fetch import Batch, fetch, plain_positions, positions, torch_collates
from hotlap.data.wrapper import DatasetWrapper, check, put_in_place
from hotlap.errors import UserError


@final
class BatchedDataset(DatasetWrapper):
    """What `batched` returns: the data set itself to all who look. See `batched`."""

    _hotlap_function = "batched"

    def _hotlap_fetch(self, indices: Any, *, whole: bool) -> Any:
        gathers = whole and torch_collates() and isinstance(indices, list)
        index = plain_positions(indices, len(self)) if gathers else None
        batch = None if index is None else self._hotlap_batch(indices, index)
        return fetch(self._hotlap_dataset, indices) if batch is None else Batch(*batch)

    def _hotlap_batch(self, indices: list[int], index: torch.Tensor) -> tuple[Any] | None:
        """(what `default_collate` makes of these items,); None where only torch can tell, be it an error."""
        reason = _why_not(self._hotlap_dataset)  # the script may have put other tensors into it
        name = type(self._hotlap_dataset).__name__
        self.__dict__["_hotlap_note"] = f"batches of {name} are not gathered: {reason}" if reason else None
        try:
            return None if reason else (_rows(self._hotlap_dataset, index),)
        except (TypeError, RuntimeError, ValueError, IndexError, AttributeError, KeyError):
            return None


def _why_not(dataset: Any) -> str | None:
    """Exactly these classes are served: one derived from them may do something else for an item."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    served = type(dataset) is TensorDataset and all(map(is_plain_tensor, dataset.tensors))
    return None if served else "whose items are not rows of tensors in memory"


def _rows(dataset: Any, index: torch.Tensor) -> list[torch.Tensor]:
    """Of these positions, one tensor for each that the data set holds."""
    if type(dataset) is Subset:
        return _rows(dataset.dataset, _chosen(dataset, index))
    return [
        # How a stack of rows lies that are not dense is torch's to decide.
        rows.index_select(0, index) if rows.is_contiguous() else torch.stack([rows[k] for k in index.tolist()])
        for rows in dataset.tensors
    ]


def _chosen(subset: Any, index: torch.Tensor) -> torch.Tensor:
    """Their positions in what it is a part of."""
    chosen = subset.indices
    if isinstance(chosen, range):
        return index * chosen.step + chosen.start
    wanted = [chosen[number] for number in index.tolist()]
    found = positions(wanted, set(map(type, wanted)), len(subset.dataset))
    if found is None:
        raise ValueError("an index that counts from the end")
    return found


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
    reason = _why_not(dataset)
    if reason is not None:
        raise UserError(
            f"batched() got a {type(dataset).__name__}, {reason}. hotlap.data.cached serves other data sets."
        )
    return put_in_place(BatchedDataset(dataset))
