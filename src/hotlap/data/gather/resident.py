"""`resident(dataset)`: kept items lie on the device as a whole, and a batch is gathered there by its indices.

The script is handed CPU tensors that are not made yet. If its next use of one is `.to(device)` or `.cuda()`, the rows
are taken from the copy over there: what travels is indices, of a whole epoch at once where its order is known. After
any other use it is the batch that `cached` would have gathered here.
"""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, cast, final

import torch
from torch.utils._pytree import tree_map

from hotlap import at_work
from hotlap.data.item_cache.cached import CachedDataset, cached
from hotlap.data.item_cache.columns import Column
from hotlap.data.item_cache.store import ColumnStore
from hotlap.units import size

# Batches that the script moves itself before anything is put there: by then the training has shown what it takes.
NUM_MOVES_FIRST = 20

# Of what is free on the device then. The other half is for larger batches, validation, and what else may come.
SHARE_OF_FREE = 0.5

# Batches that may be used otherwise (printed, looked at) before all are made at once, here.
MOST_LOOKS = 3

# `Tensor.to` with nothing but these moves it, and does no more.
_MOVING = frozenset({"device", "non_blocking"})

# A patched `Tensor.to` calls these in the end.
_TO: Any = torch._C.TensorBase.to
_CUDA: Any = torch._C.TensorBase.cuda
_PIN: Any = torch._C.TensorBase.pin_memory


@final
class LazyTensor(torch.Tensor):
    """A tensor of (B, ...) without memory of its own until it is used."""

    rows: "_Rows"
    made: torch.Tensor | None

    # Uses that need no numbers and cannot change them.
    _LOOKS: ClassVar[frozenset[Any]] = frozenset(
        {
            torch.Tensor.size, torch.Tensor.dim, torch.Tensor.__len__, torch.Tensor.numel,
            torch.Tensor.is_floating_point, torch.Tensor.element_size,
            *(getattr(torch.Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim", "is_cpu", "is_cuda",
                                                               "is_meta", "layout", "requires_grad")),
        }
    )  # fmt: skip

    def _hotlap_peek(self) -> torch.Tensor:
        """The tensor, without this being a use of it."""
        return self.rows.here() if self.made is None else self.made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Make it over there for a script that moves it, here for everybody else."""
        kwargs = kwargs or {}
        disabled: Any = torch._C.DisableTorchFunctionSubclass
        with disabled():
            if func in cls._LOOKS:
                return func(*args, **kwargs)
            first = args[0] if args else None
            if type(first) is LazyTensor and first.made is None and func in (_TO, _CUDA):
                device = _target_of(func, args[1:], kwargs)
                if device is not None:
                    waits_not = bool(kwargs.get("non_blocking", args[2] if len(args) == 3 else False))
                    return first.rows.devices.arrive(first.rows, device, non_blocking=waits_not)
            if type(first) is LazyTensor and first.made is None and func is _PIN:
                return _lazy_tensor(first, replace(first.rows, pinned=True))
            return func(*tree_map(_number, args), **tree_map(_number, kwargs))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # its annotation lacks the first argument
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """As above, for what asks torch's dispatcher itself."""
        return func(*tree_map(_number, args), **tree_map(_number, kwargs or {}))


@final
@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of one column of a store, to be gathered where they are wanted."""

    devices: "DeviceStore"
    store: ColumnStore
    column: Column
    index: torch.Tensor
    pinned: bool = False
    """Should they be gathered here, it is into pinned memory."""

    def here(self) -> torch.Tensor:
        """(B, ...) on the CPU."""
        rows = self.column.gather(self.index)
        return rows.pin_memory() if self.pinned else rows


def _lazy_tensor(like: torch.Tensor, rows: _Rows) -> LazyTensor:
    wrapper: Any = torch.Tensor._make_wrapper_subclass
    promised = wrapper(LazyTensor, tuple(like.shape), strides=like.stride(), dtype=like.dtype, device="cpu")
    promised.rows, promised.made = rows, None
    return cast(LazyTensor, promised)


def _target_of(func: Any, rest: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device | None:
    """Where a call moves the tensor, if it does nothing else."""
    # `cuda` takes non_blocking by position as well, `to` a dtype.
    to_cuda = func is _CUDA
    plain = len(rest) <= 1 or (to_cuda and len(rest) == 2 and isinstance(rest[1], bool))
    if not plain or not _MOVING.issuperset(kwargs):
        return None
    where = rest[0] if rest else kwargs.get("device", "cuda" if to_cuda else None)
    if isinstance(where, bool) or not isinstance(where, str | int | torch.device):
        return None
    return torch.device("cuda", where) if isinstance(where, int) else torch.device(where)


def _number(value: Any) -> Any:
    if type(value) is not LazyTensor:
        return value
    if value.made is None:
        value.rows.devices.looked_at()
        value.made = value.rows.here()
    return value.made


class DeviceStore:
    """The columns of a store on the CUDA device that the script trains on. When the data set is filled again, into
    another store, they are put there again."""

    def __init__(self) -> None:
        self.note: str | None = None
        """Why batches are gathered on the CPU."""
        self._begin(None)

    def may_be_used(self) -> bool:
        """The script has started CUDA (asking must not start it)."""
        cuda: Any = torch.cuda
        return bool(cuda.is_available() and cuda.is_initialized())

    def resolved(self, device: torch.device) -> torch.device | None:
        """Without an index, the current one; None: it is no CUDA device."""
        if device.type != "cuda":
            return None
        return torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)

    def free_bytes(self) -> int:
        """Of the device, not of torch's allocator: what that holds is the training's."""
        free: int = torch.cuda.mem_get_info(self._device)[0]
        return free

    def bring(self, tensor: torch.Tensor) -> torch.Tensor:
        """CPU -> device; done when it returns, for all streams."""
        there = tensor.to(self._device)
        torch.cuda.synchronize(self._device)
        return there

    def _begin(self, store: ColumnStore | None) -> None:
        # The copy goes with the store.
        self._store = None if store is None else weakref.ref(store, lambda _: self._begin(None))
        self._device: torch.device | None = None
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

    @property
    def settled(self) -> bool:
        """True if all items are on the device, or never will be; False until the first batch tells."""
        return not self.may_be_used() or (self._store is not None and (self.full or not self.open))

    def gather(self, store: ColumnStore, index: torch.Tensor) -> tuple[Any] | None:
        """As `ColumnStore.gather` of a store that holds all items, with tensors that are not made yet where the rows of
        a batch can be told."""
        if not self.may_be_used():
            return store.gather(index)
        if self._store is None or self._store() is not store:
            self._begin(store)
        return store.gather(index, promise=lambda column: self._promise(store, column, index) if self.open else None)

    def looked_at(self) -> None:
        """The script used a batch on the CPU."""
        self._num_looks += 1
        if self._num_looks >= MOST_LOOKS:
            self._close("the script uses its batches on the CPU")

    def arrive(self, rows: _Rows, device: torch.device, *, non_blocking: bool) -> torch.Tensor:
        """(B, ...) over there; before any rows are, and where there is no room, those gathered here."""
        is_there = self.open and self._is_there(rows.store, device)
        there = self._columns.get(id(rows.column)) if is_there else None
        if there is None:
            return rows.column.gather(rows.index).to(device, non_blocking=non_blocking)
        self.num_given += 1
        return there.index_select(0, self._index_there(rows.index)).permute(rows.column.kept_rows()[1])

    def _promise(self, store: ColumnStore, column: Column, index: torch.Tensor) -> LazyTensor | None:
        kept, permute = column.kept_rows()
        if kept is None:
            return None
        case = (id(column), index.numel())
        layout = self._layouts.get(case)
        if layout is None:
            layout = torch.empty((index.numel(), *kept.shape[1:]), dtype=kept.dtype, device="meta").permute(permute)
            self._layouts[case] = layout
        return _lazy_tensor(layout, _Rows(self, store, column, index))

    def _is_there(self, store: ColumnStore, device: torch.device) -> bool:
        if self._store is None or self._store() is not store:
            return False  # the batch is of items that were dropped since
        target = self.resolved(device)
        if target is None or target != self._device:
            if self.full:
                self._close("the script moves its batches to several devices")
                return False
            self._device, self._num_moves = target, 0
            if target is None:
                self._close(f"batches go to {device}, and this is for CUDA devices")
                return False
        if not self.full:
            self._num_moves += 1
            if self._num_moves > NUM_MOVES_FIRST:
                self._fill(store.columns)
        return self.full

    def _fill(self, columns: Sequence[Column]) -> None:
        kept = {id(column): rows for column in columns if (rows := column.kept_rows()[0]) is not None}
        wanted = sum(rows.nbytes for rows in kept.values())
        free = int(SHARE_OF_FREE * self.free_bytes())
        if wanted > free:
            self._close(f"its items take {size(wanted)}, and {size(free)} of the device may be used")
            return
        try:
            self._columns = {name: self.bring(rows) for name, rows in kept.items()}
        except RuntimeError as error:  # out of memory all the same: others use the device as well
            self._close(f"its items could not be put on the device ({str(error).splitlines()[0]})")
            return
        self.full = True

    def _index_there(self, index: torch.Tensor) -> torch.Tensor:
        """Indices of a batch that is a part of an epoch's order travel with the whole of it, once."""
        order = index._base
        if order is None or not order.is_contiguous():
            return self.bring(index)
        if self._order is not order or self._order_there is None:
            self._order, self._order_there = order, self.bring(order.flatten())
        start = index.storage_offset() - order.storage_offset()
        return self._order_there[start : start + index.numel()]

    def _close(self, reason: str) -> None:
        self.open = self.full = False
        self._columns, self._order, self._order_there = {}, None, None
        self.note = f"batches are gathered on the CPU: {reason}"
        at_work.note(self.note)


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
        kept.__dict__["_hotlap_devices"] = DeviceStore()
        kept._hotlap_cache.as_bytes = False  # rows are wanted as they travel
    at_work.register("resident", kept)
    return kept
