"""How the items of a data set become rows of a table: one column for each leaf that is alike in all of them.

What is not alike (pictures of all sizes, a label that is sometimes missing) is kept as the bytes of `pack_values`, in a
column of bytes for that leaf; an item that fits no column at all, in the column of the others.

A *raw* is what a row holds in one column: bytes. Shape letters: N rows.
"""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal, cast, final

import numpy as np
import torch

from hotlap.data import pack_values
from hotlap.data.items import is_plain_tensor, tensor_bytes

# A longer sequence is a value, not a structure: a list of 1,000 numbers is no table of 1,000 columns.
_MOST_CHILDREN = 64
_MOST_COLUMNS = 256

_INT64 = range(-(1 << 63), 1 << 63)

Kind = Literal["tensor", "array", "scalar", "int", "float", "bool", "text", "bytes", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One leaf of all items."""

    name: str
    """The way to it: `item.image`, `item.0`."""
    kind: Kind
    dtype: str = ""
    """Of the elements of a tensor (`float32`), or of an array (`<f4`)."""
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] | None = None
    """None for those that a new tensor or array has."""
    writeable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A place in the structure of an item."""

    kind: Literal["leaf", "none", "tuple", "list", "dict", "ordered"]
    column: int = 0
    """Of a leaf."""
    keys: tuple[str | int | bool | None, ...] = ()
    children: tuple["Node", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What the rows of a table mean."""

    root: Node
    columns: tuple[Column, ...]


class Codec(ABC):
    """Values of one column <-> raws."""

    element: str = ""
    """Type of the elements as NumPy names it, for a column of fixed width; empty for texts and bytes."""
    num_elements = 0
    """For each row."""

    @abstractmethod
    def raw(self, value: Any) -> bytes | None:
        """None if the value is not of this kind."""

    @abstractmethod
    def value(self, raw: Any) -> Any:
        """The value, in memory of its own; `Damaged` if there is none."""

    @property
    def row_bytes(self) -> int:
        """Of a column of fixed width."""
        return self.num_elements * np.dtype(self.element).itemsize


@final
class _Tensors(Codec):
    def __init__(self, column: Column) -> None:
        self._column = column
        self._dtype = pack_values.element_type(column.dtype)
        self._bytes = prod(column.shape) * self._dtype.itemsize
        try:
            name = torch.empty(0, dtype=self._dtype).numpy().dtype.str
        except TypeError:  # NumPy has no bfloat16
            name = ""
        self.element, self.num_elements = _elements(name, self._bytes)

    def raw(self, value: Any) -> bytes | None:
        column = self._column
        if not is_plain_tensor(value) or value.dtype != self._dtype or value.shape != column.shape:
            return None
        return tensor_bytes(value).numpy().tobytes() if pack_values.tensor_strides(value) == column.strides else None

    def value(self, raw: Any) -> Any:
        return pack_values.tensor_of(raw, self._dtype, self._column.shape, self._column.strides)


@final
class _Arrays(Codec):
    def __init__(self, column: Column) -> None:
        self._column = column
        self._dtype = pack_values.array_type(column.dtype)
        self.element, self.num_elements = _elements(column.dtype, prod(column.shape) * self._dtype.itemsize)

    def raw(self, value: Any) -> bytes | None:
        column = self._column
        if type(value) is not np.ndarray or value.dtype != self._dtype or value.shape != column.shape:
            return None
        alike = pack_values.array_strides(value) == column.strides and value.flags.writeable == column.writeable
        return value.tobytes() if alike else None

    def value(self, raw: Any) -> Any:
        value = pack_values.array_of(raw, self._dtype, self._column.shape, self._column.strides)
        if not self._column.writeable:
            value.flags.writeable = False
        return value


@final
class _Scalars(Codec):
    def __init__(self, column: Column) -> None:
        self._dtype = pack_values.array_type(column.dtype)
        self.element, self.num_elements = _elements(column.dtype, self._dtype.itemsize)

    def raw(self, value: Any) -> bytes | None:
        return value.tobytes() if isinstance(value, np.generic) and value.dtype == self._dtype else None

    def value(self, raw: Any) -> Any:
        return np.frombuffer(raw, self._dtype)[0]


@final
class _Numbers(Codec):
    """Python's own int, float or bool."""

    num_elements = 1
    _ELEMENTS = {int: "<i8", float: "<f8", bool: "|u1"}  # noqa: RUF012 - never changed

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self.element = self._ELEMENTS[kind]
        self._dtype = np.dtype(self.element)

    def raw(self, value: Any) -> bytes | None:
        if type(value) is not self._kind or (self._kind is int and value not in _INT64):
            return None
        return bytes(self._dtype.type(value).tobytes())

    def value(self, raw: Any) -> Any:
        return self._kind(np.frombuffer(raw, self._dtype)[0])


@final
class _Texts(Codec):
    def raw(self, value: Any) -> bytes | None:
        try:
            return value.encode() if type(value) is str else None
        except UnicodeEncodeError:
            return None

    def value(self, raw: Any) -> Any:
        try:
            return bytes(raw).decode()
        except UnicodeDecodeError as error:
            raise pack_values.Damaged(str(error)) from error


@final
class _Bytes(Codec):
    def raw(self, value: Any) -> bytes | None:
        return value if type(value) is bytes else None

    def value(self, raw: Any) -> Any:
        return bytes(raw)


@final
class _Any(Codec):
    def raw(self, value: Any) -> bytes | None:
        return pack_values.encode(value)

    def value(self, raw: Any) -> Any:
        return pack_values.decode(raw)


def codec_of(column: Column) -> Codec:
    """How this column's values are kept."""
    by_kind: dict[str, Callable[[Column], Codec]] = {"tensor": _Tensors, "array": _Arrays, "scalar": _Scalars}
    if column.kind in by_kind:
        return by_kind[column.kind](column)
    numbers = {"int": int, "float": float, "bool": bool}
    if column.kind in numbers:
        return _Numbers(numbers[column.kind])
    others: dict[str, Callable[[], Codec]] = {"text": _Texts, "bytes": _Bytes, "any": _Any}
    return others[column.kind]()


@final
class Rows:
    """Items <-> raws, by a layout."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.codecs = [codec_of(column) for column in layout.columns]
        self._empty = [bytes(codec.row_bytes) if codec.element else b"" for codec in self.codecs]

    def row(self, item: Any) -> list[bytes]:
        """The raws of an item, one for each column, and last that of the column of the others.

        Raises:
            Unsupported: the item cannot be kept at all.
        """
        raws = self._raws(item)
        return [*self._empty, pack_values.encode(item)] if raws is None else [*raws, b""]

    def item(self, row: Sequence[Any]) -> Any:
        """The item of a row; `Damaged` if there is none."""
        if len(row[-1]):
            return pack_values.decode(row[-1])
        values = [codec.value(raw) for codec, raw in zip(self.codecs, row[:-1], strict=True)]
        return _built(self.layout.root, values)

    def _raws(self, item: Any) -> list[bytes] | None:
        """One for each column; None if the item is built otherwise."""
        leaves = list(_leaves(self.layout.root, item))
        if any(leaf is _OTHERWISE for leaf in leaves):
            return None
        raws = [codec.raw(leaf) for leaf, codec in zip(leaves, self.codecs, strict=True)]
        return None if None in raws else cast("list[bytes]", raws)


def layout_of(samples: Sequence[Any]) -> Layout:
    """The layout that fits these items."""
    columns: list[Column] = []
    root = _node("item", samples, columns)
    if len(columns) > _MOST_COLUMNS:
        return Layout(root=Node(kind="leaf"), columns=(Column(name="item", kind="any"),))
    return Layout(root=root, columns=tuple(columns))


_OTHERWISE = object()
_CONTAINERS: dict[type, Literal["tuple", "list", "dict", "ordered"]] = {
    tuple: "tuple",
    list: "list",
    dict: "dict",
    OrderedDict: "ordered",
}
_TYPES: dict[str, type[Any]] = {name: kind for kind, name in _CONTAINERS.items()}


def _node(name: str, values: Sequence[Any], columns: list[Column]) -> Node:
    first = values[0]
    if all(value is None for value in values):
        return Node(kind="none")
    kind = _CONTAINERS.get(type(first))
    if kind is None or not _alike(values):
        columns.append(_column(_unused(name, columns), values))
        return Node(kind="leaf", column=len(columns) - 1)
    keys = tuple(first) if isinstance(first, dict) else ()
    children = [_node(f"{name}.{key}", [value[key] for value in values], columns) for key in keys or range(len(first))]
    return Node(kind=kind, keys=keys, children=tuple(children))


def _alike(values: Sequence[Any]) -> bool:
    """True for containers that are built alike, as far as their own entries go."""
    first = values[0]
    if any(type(value) is not type(first) or len(value) != len(first) for value in values):
        return False
    if isinstance(first, dict):
        same_keys = all(_keys(value) == _keys(first) for value in values)
        return same_keys and len(first) <= _MOST_CHILDREN and all(map(_is_plain, first))
    return len(first) <= _MOST_CHILDREN


def _keys(value: dict[Any, Any]) -> list[tuple[type, Any]]:
    """With their types, for 1 equals True."""
    return [(type(key), key) for key in value]


def _is_plain(key: Any) -> bool:
    """True for a key that JSON can hold."""
    if type(key) is str:
        return key.isprintable()  # no half of a surrogate pair
    return key is None or type(key) is bool or (type(key) is int and key in _INT64)


def _unused(name: str, columns: list[Column]) -> str:
    taken = {column.name for column in columns}
    return name if name not in taken else f"{name} ({len(columns)})"


def _column(name: str, values: Sequence[Any]) -> Column:
    """One that fits all values; in the last resort one of bytes that say what they are."""
    column = _column_like(name, values[0])
    if column.kind != "any":
        codec = codec_of(column)
        if any(codec.raw(value) is None for value in values):
            return Column(name=name, kind="any")
    return column


def _column_like(name: str, value: Any) -> Column:
    simple: dict[type, Kind] = {int: "int", float: "float", bool: "bool", str: "text", bytes: "bytes"}
    if type(value) in simple:
        return Column(name=name, kind=simple[type(value)])
    if is_plain_tensor(value) and value.numel():
        about = str(value.dtype).removeprefix("torch."), tuple(value.shape), pack_values.tensor_strides(value)
        return Column(name=name, kind="tensor", dtype=about[0], shape=about[1], strides=about[2])
    if isinstance(value, np.generic) and pack_values.bytes_say_all(value.dtype) and value.dtype.kind not in "SU":
        return Column(name=name, kind="scalar", dtype=value.dtype.str)
    if type(value) is np.ndarray and pack_values.bytes_say_all(value.dtype) and value.size:
        about = value.dtype.str, value.shape, pack_values.array_strides(value)
        writeable = bool(value.flags.writeable)
        return Column(name=name, kind="array", dtype=about[0], shape=about[1], strides=about[2], writeable=writeable)
    return Column(name=name, kind="any")


def _elements(name: str, row_bytes: int) -> tuple[str, int]:
    """(NumPy's name of the elements, how many in a row): bytes where Arrow has no such type."""
    known = name and name[0] in "<|" and name[1] in "iuf" and np.dtype(name).itemsize <= 8
    return (name, row_bytes // np.dtype(name).itemsize) if known else ("|u1", row_bytes)


def _leaves(node: Node, item: Any) -> Iterator[Any]:
    """The leaves in the order of the columns; `_OTHERWISE` where the item is built otherwise."""
    if node.kind == "leaf":
        yield item
    elif not _fits(node, item):
        yield _OTHERWISE
    elif node.children:
        for child, part in zip(node.children, item.values() if isinstance(item, dict) else item, strict=True):
            yield from _leaves(child, part)


def _fits(node: Node, item: Any) -> bool:
    if node.kind == "none":
        return item is None
    if type(item) is not _TYPES[node.kind] or len(item) != len(node.children):
        return False
    return not isinstance(item, dict) or _keys(item) == [(type(key), key) for key in node.keys]


def _built(node: Node, leaves: Sequence[Any]) -> Any:
    if node.kind == "leaf":
        return leaves[node.column]
    if node.kind == "none":
        return None
    parts = [_built(child, leaves) for child in node.children]
    if node.keys:
        return _TYPES[node.kind](zip(node.keys, parts, strict=True))
    return _TYPES[node.kind](parts)
