"""Where the items of a data set are kept: by column, gathered a batch at a time, or one by one."""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, final

import torch

from hotlap.data.columns import Allocate, Column, collate, column_for, in_memory, same_batch
from hotlap.data.items import Unsupported, copy_item, is_named_tuple, num_bytes, same


class NotAlike(Unsupported):
    """Items that cannot be kept by column, but perhaps one by one."""


class Varies(Exception):  # noqa: N818 - reads as the sentence "varies"
    """An item is built otherwise than the first one."""


class Store(ABC):
    """Keeps copies of items at positions 0 to N - 1."""

    exact_items: bool
    """False if items taken out could be told from those put in; batches still could not."""
    used_bytes: int
    """What it takes now, or has reserved."""
    mappable = False
    """True if all of it lies in the memory that was allocated for it, and in no object of this process."""

    @abstractmethod
    def put(self, positions: Sequence[int], items: Sequence[Any]) -> None:
        """Keep copies."""

    @abstractmethod
    def take(self, positions: Sequence[int]) -> list[Any]:
        """Independent items, as they were put in."""

    @abstractmethod
    def gather(self, index: torch.Tensor) -> tuple[Any] | None:
        """(what `default_collate` makes of these items,); None if only torch itself can tell."""

    @abstractmethod
    def holds(self, position: int, item: Any) -> bool:
        """True if the kept item has the same types and bytes."""


class _Node:
    """A place in the structure of an item: a container with its children, or a leaf with its column."""

    def __init__(
        self,
        sample: Any,
        columns: list[Column],
        num_items: int,
        *,
        in_sequence: bool = False,
        allocate: Allocate = in_memory,
    ) -> None:
        self.type = type(sample)
        self.keys: list[Any] | None = None
        self.children: list[_Node] = []
        self.leaf: int | None = None
        self.named = is_named_tuple(sample)
        parts: list[Any]
        if self.type in (dict, OrderedDict):
            self.keys = list(sample)
            parts = list(sample.values())
        elif self.named or self.type in (tuple, list):
            parts = list(sample)
        else:
            self.leaf = len(columns)
            columns.append(column_for(sample, num_items, in_sequence=in_sequence, allocate=allocate))
            return
        in_sequence = self.keys is None
        self.children = [_Node(part, columns, num_items, in_sequence=in_sequence, allocate=allocate) for part in parts]

    def structure(self) -> str:
        """How items are built, for comparison."""
        if self.leaf is not None:
            return str(self.leaf)
        inside = ", ".join(child.structure() for child in self.children)
        return f"{self.type.__module__}.{self.type.__qualname__}{self.keys or ''}({inside})"

    def flatten(self, item: Any, columns: list[Column], leaves: list[Any]) -> None:
        """Append the item's leaves in the order of the columns; `Varies` if it is built otherwise."""
        if self.leaf is not None:
            if not columns[self.leaf].accepts(item):
                raise Varies
            leaves.append(item)
            return
        if type(item) is not self.type or len(item) != len(self.children):
            raise Varies
        if self.keys is not None:
            if list(item) != self.keys:
                raise Varies
            item = item.values()
        for node, part in zip(self.children, item, strict=True):
            node.flatten(part, columns, leaves)

    def build(self, leaves: Sequence[Any]) -> Any:
        """An item of these leaves."""
        if self.leaf is not None:
            return leaves[self.leaf]
        parts = [child.build(leaves) for child in self.children]
        if self.keys is not None:
            return self.type(zip(self.keys, parts, strict=True))
        return self.type(*parts) if self.named else self.type(parts)

    def collated(self, leaves: Sequence[Any]) -> Any:
        """A batch of these collated leaves; torch makes a list of a tuple."""
        if self.leaf is not None:
            return leaves[self.leaf]
        parts = [child.collated(leaves) for child in self.children]
        if self.keys is not None:
            return self.type(zip(self.keys, parts, strict=True))
        return self.type(*parts) if self.named else parts

    def flatten_collated(self, batch: Any, leaves: list[Any]) -> None:
        """Append the leaves of a batch; `Varies` if torch built it in another way."""
        if self.leaf is not None:
            leaves.append(batch)
            return
        expected = list if self.type is tuple else self.type
        if type(batch) is not expected or len(batch) != len(self.children):
            raise Varies
        if self.keys is not None and list(batch) != self.keys:
            raise Varies
        parts = list(batch) if self.keys is None else [batch[key] for key in self.keys]
        for node, part in zip(self.children, parts, strict=True):
            node.flatten_collated(part, leaves)


@final
class ColumnStore(Store):
    """Items that are all built alike: each leaf in one contiguous array, a batch is one gather per leaf."""

    def __init__(self, sample: Any, num_items: int, allocate: Allocate = in_memory) -> None:
        self._columns: list[Column] = []
        self._root = _Node(sample, self._columns, num_items, allocate=allocate)
        self.mappable = all(column.mappable for column in self._columns)
        self._checked: dict[tuple[int, torch.dtype], bool] = {}
        self.exact_items = all(column.exact_items for column in self._columns)
        self.used_bytes = num_items * sum(column.item_bytes for column in self._columns)

    @property
    def layout(self) -> str:
        """What the allocated bytes mean; equal layouts can share them."""
        return "; ".join([self._root.structure(), *(column.layout for column in self._columns)])

    @staticmethod
    def would_take_bytes(sample: Any, num_items: int) -> int:
        """Memory for N items like `sample`, before any is reserved; `NotAlike` if they have no columns."""
        columns: list[Column] = []
        try:
            _Node(sample, columns, 0)
        except Unsupported as unsupported:
            raise NotAlike(str(unsupported)) from unsupported
        return num_items * sum(column.item_bytes for column in columns)

    def put(self, positions: Sequence[int], items: Sequence[Any]) -> None:
        """Keep copies; `Varies` for an item that does not fit."""
        rows: list[list[Any]] = []
        for item in items:
            leaves: list[Any] = []
            self._root.flatten(item, self._columns, leaves)
            rows.append(leaves)
        index = torch.tensor(positions, dtype=torch.int64, device="cpu")
        for column, values in zip(self._columns, zip(*rows, strict=True), strict=True):
            column.put(index, list(values))

    def take(self, positions: Sequence[int]) -> list[Any]:
        """Independent items, as they were put in."""
        wanted = list(positions)
        taken = [column.take(wanted) for column in self._columns]
        return [self._root.build([values[row] for values in taken]) for row in range(len(wanted))]

    @property
    def columns(self) -> Sequence[Column]:
        """One for each leaf of an item."""
        return self._columns

    def gather(
        self, index: torch.Tensor, *, promise: Callable[[Column], Any] = lambda column: None
    ) -> tuple[Any] | None:
        """(the batch,), one gather per leaf; None if torch itself must collate true items.

        Arguments:
            index: (B,) positions.
            promise: column -> what stands for its part of the batch, or None.
        """
        case = (index.numel(), torch.get_default_dtype())
        good = self._checked.get(case)
        if good is None:
            good = self._checked[case] = self._check(index)
        if not good:
            return None
        leaves = []
        for column in self._columns:
            promised = promise(column)
            leaves.append(column.gather(index) if promised is None else promised)
        return (self._root.collated(leaves),)

    def _check(self, index: torch.Tensor) -> bool:
        """Each size of batch is collated by torch itself once, and the gather is used only if it agrees in all."""
        leaves: list[Any] = []
        try:
            self._root.flatten_collated(collate(self.take(index.tolist())), leaves)
        except (Varies, TypeError, RuntimeError, ValueError):
            return False
        for column, expected in zip(self._columns, leaves, strict=True):
            column.adjust(index.numel(), expected)
            if not same_batch(column.gather(index), expected):
                return False
        return True

    def holds(self, position: int, item: Any) -> bool:
        """True if the kept item has the same types and bytes."""
        leaves: list[Any] = []
        try:
            self._root.flatten(item, self._columns, leaves)
        except Varies:
            return False
        return all(column.holds(position, leaf) for column, leaf in zip(self._columns, leaves, strict=True))


@final
class ItemStore(Store):
    """Items that differ in shape or structure: each kept by itself, and copied on the way out."""

    exact_items = True

    def __init__(self, num_items: int) -> None:
        self._items: list[Any] = [None] * num_items
        self.used_bytes = 8 * num_items

    def put(self, positions: Sequence[int], items: Sequence[Any]) -> None:
        """Keep copies; `Unsupported` for an item that does not fit."""
        for position, item in zip(positions, items, strict=True):
            self._items[position] = copy_item(item)
            self.used_bytes += num_bytes(item)

    def take(self, positions: Sequence[int]) -> list[Any]:
        """Independent items, as they were put in."""
        return [copy_item(self._items[position]) for position in positions]

    def gather(self, index: torch.Tensor) -> tuple[Any] | None:
        """Always None: only torch itself can tell what it makes of such items."""
        return None

    def holds(self, position: int, item: Any) -> bool:
        """True if the kept item has the same types and bytes."""
        return same(self._items[position], item)
