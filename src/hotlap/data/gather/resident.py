"""`resident(dataset)`: kept items lie on the device as a whole, and a batch is gathered there by its indices.

The script is handed CPU tensors that are not made yet. If its next use of one is `.to(device)` or `.cuda()`, the rows
are taken from the copy over there: what travels is indices, of a whole epoch at once where its order is known. After
any other use it is the batch that `cached` would have gathered here.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, final
from weakref import WeakKeyDictionary

import torch

from hotlap import at_work
from hotlap.data.gather.lazy_tensor import MOST_LOOKS, LazyTensor, lazy_tensor
from hotlap.data.item_cache.cached import CachedDataset, cached
from hotlap.data.item_cache.columns import Column
from hotlap.data.item_cache.store import ColumnStore
from hotlap.data.notes import Notes
from hotlap.units import size

# Batches that the script moves itself before anything is put there: by then the training has shown what it takes.
NUM_MOVES_FIRST = 20

# Of what is free on the device then. The other half is for larger batches, validation, and what else may come.
SHARE_OF_FREE = 0.5


class CudaMemory:
    """Room on one CUDA device."""

    def __init__(self, device: torch.device) -> None:
        self._device = _with_index(device)

    def is_at(self, device: torch.device) -> bool:
        """True for this very device; without an index, for the current one."""
        return device.type == "cuda" and _with_index(device) == self._device

    def free_bytes(self) -> int:
        """Of the device, not of torch's allocator: what that holds is the training's."""
        free: int = torch.cuda.mem_get_info(self._device)[0]
        return free

    def bring(self, tensor: torch.Tensor) -> torch.Tensor:
        """CPU -> device; done when it returns, for all streams."""
        there = tensor.to(self._device)
        torch.cuda.synchronize(self._device)
        return there


def _with_index(device: torch.device) -> torch.device:
    """This CUDA device; without an index, the current one."""
    return torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)


def memory_at(device: torch.device) -> CudaMemory | None:
    """Room there, or None: this is for CUDA devices."""
    return CudaMemory(device) if device.type == "cuda" and torch.cuda.is_available() else None


@final
class DeviceStore:
    """The columns of one store on the device that the script trains on."""

    def __init__(self, notes: Notes, find: Callable[[torch.device], CudaMemory | None]) -> None:
        self._notes = notes
        self._find = find
        self._room: CudaMemory | None = None
        self._columns: dict[int, torch.Tensor] = {}
        self._order: torch.Tensor | None = None
        self._order_there: torch.Tensor | None = None
        self._layouts: dict[tuple[int, int], torch.Tensor] = {}
        self._num_moves = self._num_looks = 0
        self.full = False
        """True while all items lie on the device."""
        self.open = True
        """False once it was seen that nothing can be gained: batches are gathered on the CPU at once."""
        self.num_given = 0
        """Tensors that were gathered over there."""

    def gather(self, store: ColumnStore, index: torch.Tensor) -> tuple[Any] | None:
        """As `ColumnStore.gather`, with tensors that are not made yet where the rows of a batch can be told."""
        return store.gather(index, promise=lambda column: self._promise(store, column, index) if self.open else None)

    def looked_at(self) -> None:
        """The script used a batch on the CPU."""
        self._num_looks += 1
        if self._num_looks >= MOST_LOOKS:
            self._close("the script uses its batches on the CPU")

    def _arrive(
        self, store: ColumnStore, column: Column, index: torch.Tensor, device: torch.device, non_blocking: bool
    ) -> torch.Tensor:
        """(B, ...) over there; before any rows are, and where there is no room, those gathered here."""
        there = self._columns.get(id(column)) if self.open and self._is_there(store, device) else None
        if there is None:
            return column.gather(index).to(device, non_blocking=non_blocking)
        self.num_given += 1
        return there.index_select(0, self._index_there(index)).permute(column.kept_rows()[1])

    def _promise(self, store: ColumnStore, column: Column, index: torch.Tensor) -> LazyTensor | None:
        kept, permute = column.kept_rows()
        if kept is None:
            return None
        case = (id(column), index.numel())
        layout = self._layouts.get(case)
        if layout is None:
            layout = torch.empty((index.numel(), *kept.shape[1:]), dtype=kept.dtype, device="meta").permute(permute)
            self._layouts[case] = layout
        return lazy_tensor(
            tuple(layout.shape),
            dtype=layout.dtype,
            strides=layout.stride(),
            make=lambda: column.gather(index),
            arrive=partial(self._arrive, store, column, index),
            looked_at=self.looked_at,
        )

    def _is_there(self, store: ColumnStore, device: torch.device) -> bool:
        if self._room is None or not self._room.is_at(device):
            if self.full:
                self._close("the script moves its batches to several devices")
                return False
            self._room, self._num_moves = self._find(device), 0
            if self._room is None:
                self._close(f"batches go to {device}, and this is for CUDA devices")
                return False
        if not self.full:
            self._num_moves += 1
            if self._num_moves > NUM_MOVES_FIRST:
                self._fill(store.columns, self._room)
        return self.full

    def _fill(self, columns: Sequence[Column], room: CudaMemory) -> None:
        kept = {id(column): rows for column in columns if (rows := column.kept_rows()[0]) is not None}
        wanted = sum(rows.nbytes for rows in kept.values())
        free = int(SHARE_OF_FREE * room.free_bytes())
        if wanted > free:
            self._close(f"its items take {size(wanted)}, and {size(free)} of the device may be used")
            return
        try:
            self._columns = {name: room.bring(rows) for name, rows in kept.items()}
        except RuntimeError as error:  # out of memory all the same: others use the device as well
            self._close(f"its items could not be put on the device ({str(error).splitlines()[0]})")
            return
        self.full = True

    def _index_there(self, index: torch.Tensor) -> torch.Tensor:
        """Indices of a batch that is a part of an epoch's order travel with the whole of it, once."""
        assert self._room is not None  # rows are there
        order = index._base
        if order is None or not order.is_contiguous():
            return self._room.bring(index)
        if self._order is not order or self._order_there is None:
            self._order, self._order_there = order, self._room.bring(order.flatten())
        start = index.storage_offset() - order.storage_offset()
        return self._order_there[start : start + index.numel()]

    def _close(self, reason: str) -> None:
        self.open = self.full = False
        self._columns, self._order, self._order_there = {}, None, None
        self._notes.say(f"batches are gathered on the CPU: {reason}")


@final
class DeviceStores:
    """Of the stores of one data set: when it is filled again, its items are put on the device again."""

    def __init__(self, find: Callable[[torch.device], CudaMemory | None] = memory_at) -> None:
        self.notes = Notes()
        self._find = find
        self._of: WeakKeyDictionary[Any, DeviceStore] = WeakKeyDictionary()

    @property
    def settled(self) -> bool:
        """True if all items of each store are on the device, or never will be; False until the first batch tells."""
        if not self._may_be_used():
            return True
        return bool(self._of) and all(device_store.full or not device_store.open for device_store in self._of.values())

    def gather(self, store: ColumnStore, index: torch.Tensor) -> tuple[Any] | None:
        """A batch of a store that holds all items."""
        if not self._may_be_used():
            return store.gather(index)
        device_store = self._of.get(store)
        if device_store is None:
            device_store = self._of[store] = DeviceStore(self.notes, self._find)
        return device_store.gather(store, index)

    def _may_be_used(self) -> bool:
        """The script has started CUDA (asking must not start it), or is given another way."""
        cuda: Any = torch.cuda
        return self._find is not memory_at or bool(cuda.is_available() and cuda.is_initialized())


def resident(dataset: Any, *, memory_bytes: int | None = None, disk: bool | str | Path = False) -> CachedDataset:
    """A data set as `cached` returns it, whose items lie on the GPU as well once all are kept.

    `DataLoader(resident(train), batch_size=64, shuffle=True)`, and `x.to("cuda")` in the loop, as ever: after some
    batches all items are copied to where the script moves them, if they take no more than half of what is free there.
    From then on a batch is gathered on the device: the same bytes, in the same order. All that `cached` promises and
    sees holds. `note` says why batches do not come from the device.

    Arguments:
        dataset: map-style, or what `cached` returned.
        memory_bytes: the most that kept items may take on the CPU, as for `cached`.
        disk: as for `cached`.

    Returns:
        The data set with kept items.
    """
    kept = cached(dataset, memory_bytes=memory_bytes, disk=disk)
    if kept._hotlap_devices is None:
        kept.__dict__["_hotlap_devices"] = DeviceStores()
        kept._hotlap_cache.as_bytes = False  # rows are wanted as they travel
    at_work.register("resident", kept)
    return kept
