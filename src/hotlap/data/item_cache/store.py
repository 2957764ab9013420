"""Where the items of a data set are kept: by column, gathered a batch at a time, or one by one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, final

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten
from torch.utils.data import default_collate

from hotlap.data.item.codec import pack, unpack
from hotlap.data.item.compare import Unsupported, flatten_batch, same
from hotlap.data.item_cache.columns import Allocate, Column, Varies, column_for, same_batch
from hotlap.data.item_cache.records import SharedRecords
from hotlap.data.item_cache.shared_memory import shared_tensor, whole_pages
from hotlap.units import size


class Store(ABC):
    """Keeps copies of items at positions 0 to N - 1, in memory that forked processes share."""

    def needed_bytes(self, num_kept: int) -> int | None:
        """Memory for all items, by what is kept of some of them; None if that was known from the first."""
        return None

    @abstractmethod
    def put(self, positions: Sequence[int], items: Sequence[Any]) -> Sequence[int]:
        """Keep copies; the positions of those that are kept now."""

    @abstractmethod
    def take(self, positions: Sequence[int]) -> list[Any]:
        """Independent items, as they were put in."""

    @abstractmethod
    def gather(self, index: torch.Tensor) -> tuple[Any] | None:
        """(what `default_collate` makes of these items,); None if only torch itself can tell."""

    @abstractmethod
    def holds(self, position: int, item: Any) -> bool:
        """True if the kept item has the same types and bytes."""


@final
class ColumnStore(Store):
    """Items that are all built alike: each leaf in one contiguous array, a batch is one gather per leaf."""

    def __init__(self, sample: Any, num_items: int, allocate: Allocate = shared_tensor, *, as_bytes: bool) -> None:
        """Arguments as of `column_for`."""
        leaves, self._structure = tree_flatten(sample)
        self._is_flat = type(sample) is tuple and len(leaves) == len(sample) > 0 and all(map(is_, leaves, sample))
        self.columns = [column_for(leaf, num_items, allocate, as_bytes=as_bytes) for leaf in leaves]
        """One for each leaf of an item."""
        self._batches: dict[tuple[int, torch.dtype], tuple[TreeSpec] | None] = {}
        self.item_bytes = sum(column.item_bytes for column in self.columns)

    @property
    def layout(self) -> str:
        """What the allocated bytes mean; equal layouts can share them."""
        return "; ".join([repr(self._structure), *(column.layout for column in self.columns)])

    def block_bytes(self, num_items: int) -> int:
        """What a `SharedBlock` must hold for N such items."""
        return sum(whole_pages(num_items * column.item_bytes) for column in self.columns)

    def put(self, positions: Sequence[int], items: Sequence[Any]) -> Sequence[int]:
        """Keep copies of all; `Varies` for an item that does not fit."""
        index = torch.tensor(positions, dtype=torch.int64, device="cpu")
        for column, values in zip(self.columns, self._values(items), strict=True):
            column.put(index, values)
        return positions

    def _values(self, items: Sequence[Any]) -> list[list[Any]]:
        """(B,) of each column; `Varies` if an item is built otherwise."""
        if self._is_flat and set(map(type, items)) == {tuple} and set(map(len, items)) == {len(self.columns)}:
            values = [*map(list, zip(*items, strict=True))]  # leaves by their kind, as a column accepts no container
        else:
            rows = [tree_flatten(item) for item in items]
            if not all(structure == self._structure for _, structure in rows):
                raise Varies
            values = [*map(list, zip(*(leaves for leaves, _ in rows), strict=True))]
        if not all(all(map(column.accepts, some)) for column, some in zip(self.columns, values, strict=True)):
            raise Varies
        return values

    def take(self, positions: Sequence[int]) -> list[Any]:
        """Independent items, as they were put in."""
        wanted = list(positions)
        taken = [column.take(wanted) for column in self.columns]
        rows = zip(*taken, strict=True) if taken else [()] * len(wanted)
        return [tree_unflatten(leaves, self._structure) for leaves in rows]

    def gather(
        self, index: torch.Tensor, *, promise: Callable[[Column], Any] = lambda column: None
    ) -> tuple[Any] | None:
        """(the batch,), one gather per leaf; None if torch itself must collate true items.

        Arguments:
            index: (B,) positions.
            promise: column -> what stands for its part of the batch, or None.
        """
        case = (index.numel(), torch.get_default_dtype())
        if case not in self._batches:
            self._batches[case] = self._check(index)
        built = self._batches[case]
        if built is None:
            return None
        leaves = []
        for column in self.columns:
            promised = promise(column)
            leaves.append(column.gather(index) if promised is None else promised)
        return (tree_unflatten(leaves, built[0]),)

    def _check(self, index: torch.Tensor) -> tuple[TreeSpec] | None:
        """(how torch itself builds a batch of this size,), once for each; None if a gather does not agree in all."""
        try:
            leaves, structure = flatten_batch(default_collate(self.take(index.tolist())))
        except (TypeError, RuntimeError, ValueError):
            return None
        if len(leaves) != len(self.columns):
            return None
        for column, expected in zip(self.columns, leaves, strict=True):
            if not same_batch(column.gather(index), expected):
                return None
        return (structure,)

    def fits(self, items: Sequence[Any]) -> bool:
        """All are built as the first one."""
        try:
            self._values(items)
        except Varies:
            return False
        return True

    def holds(self, position: int, item: Any) -> bool:
        """True if the kept item has the same types and bytes."""
        try:
            values = self._values([item])
        except Varies:
            return False
        return all(column.holds(position, leaf) for column, (leaf,) in zip(self.columns, values, strict=True))


@final
class RecordStore(Store):
    """Items that differ in shape or structure: each a record of its own, which is read out anew."""

    def __init__(self, records: SharedRecords, *, halves: bool = False) -> None:
        """`halves`: they are handed to more transforms. As many as fit will do, and their pictures are lazy ones."""
        self.records = records
        self.halves = halves

    def needed_bytes(self, num_kept: int) -> int | None:
        """As many as fit do for halves."""
        return None if self.halves else self.records.used_bytes * self.records.num_places // num_kept

    def put(self, positions: Sequence[int], items: Sequence[Any]) -> Sequence[int]:
        """Keep copies; `Unsupported` where there is no room for all, and all are wanted."""
        kept = [
            position for position, item in zip(positions, items, strict=True) if self.records.put(position, pack(item))
        ]
        if len(kept) < len(positions) and not self.halves:
            raise Unsupported(f"it would take more than the {size(self.records.limit_bytes)} set aside for it")
        return kept

    def take(self, positions: Sequence[int]) -> list[Any]:
        """Independent items, as they were put in."""
        return [self._at(position, lazily=self.halves) for position in positions]

    def gather(self, index: torch.Tensor) -> tuple[Any] | None:
        """Always None: only torch itself can tell what it makes of such items."""
        return None

    def holds(self, position: int, item: Any) -> bool:
        """True if the kept item has the same types and bytes."""
        return same(self._at(position), item)

    def _at(self, position: int, *, lazily: bool = False) -> Any:
        parts = self.records.get(position)
        assert parts is not None, "an item is asked for only once it is kept"
        return unpack(parts, lazily=lazily)
