"""A Hugging Face `datasets.Dataset` -> batches gathered from the Arrow memory in which its columns lie.

As written, a batch of it is cut out of the table row by row, made into one Python object per value, handed out as one
dict per item, and collated. Neither `datasets` nor `pyarrow` is imported here: where one of their data sets comes from,
they are there.

Shape letters: B items of a batch, L numbers in each item's list.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

import numpy as np
import torch

from hotlap.data.items import Unsupported

Rows = Callable[[Any], Any]
"""(B,) positions within a chunk -> (B, ...) their values, independent of the table."""

# Formats of the data set whose values are known: none (Python's own numbers), "torch" and "numpy". The last two make
# int64 and float32 of all numbers (datasets.formatting.torch_formatter, np_formatter).
_FORMATS = (None, "torch", "numpy")

# Features that come out as they are stored; all others decode something.
_PLAIN_FEATURES = frozenset({"Value", "ClassLabel", "List", "LargeList", "Sequence"})


def is_arrow_dataset(dataset: Any) -> bool:
    """True for `datasets.Dataset` itself, not for a class derived from it."""
    return type(dataset).__module__ == "datasets.arrow_dataset" and type(dataset).__name__ == "Dataset"


def is_arrow(dataset: Any) -> bool:
    """True for what comes straight from pyarrow."""
    return type(dataset).__module__.partition(".")[0] == "pyarrow"


@final
class ArrowGather:
    """Gathers batches of a `datasets.Dataset` in the format that it has now."""

    def __init__(self, dataset: Any) -> None:
        """`Unsupported` says why its batches cannot be gathered."""
        self._dataset = dataset
        try:
            self._held = _held(dataset)
            self._format = _format(dataset)
            data, mapping, features = self._held
            self._mapping = None if mapping is None else _Numbers(mapping.table.column("indices"))
            self._columns = {name: self._column(data.table, features, name) for name in self._names(data.table)}
        except (AttributeError, KeyError) as error:
            raise Unsupported(f"this version of datasets is not known ({type(error).__name__}: {error})") from error

    def current(self) -> bool:
        """True if the data set has the same table, order of rows and format."""
        same = all(now is then for now, then in zip(_held(self._dataset), self._held, strict=True))
        try:
            return same and _format(self._dataset) == self._format
        except Unsupported:
            return False

    def __call__(self, index: torch.Tensor) -> Any:
        """(B,) positions -> what `default_collate` makes of the rows there."""
        wanted = index.numpy()
        if self._mapping is not None:
            wanted = self._mapping.rows(wanted).astype(np.int64)
        return {name: make(column.rows(wanted)) for name, (column, make) in self._columns.items()}

    def _names(self, table: Any) -> list[str]:
        _, chosen, others, _ = self._format
        if chosen is None:
            return list(table.column_names)
        rest = [name for name in table.column_names if name not in chosen]
        return [name for name in table.column_names if name in chosen] + (rest if others else [])

    def _column(self, table: Any, features: Any, name: str) -> "tuple[_Column, Callable[[Any], Any]]":
        column = table.column(name)
        if not _is_plain(features[name]):
            raise Unsupported(f"its column {name!r} is decoded as it is read ({type(features[name]).__name__})")
        if column.null_count:
            raise Unsupported(f"its column {name!r} has empty places")
        form, chosen, _, _ = self._format
        if chosen is not None and name not in chosen:
            form = None  # columns beside the chosen ones come as Python's own values
        kind = _kind(column.type)
        if kind is None or (kind is _Text and form == "numpy"):
            raise Unsupported(f"its column {name!r} holds {column.type}")
        return kind(column), _makes(kind, form)


def _held(dataset: Any) -> tuple[Any, Any, Any]:
    return dataset._data, dataset._indices, dataset._info.features


def _format(dataset: Any) -> tuple[Any, Any, bool, dict[str, Any]]:
    """(type, names of the columns or None, whether the other columns come too, settings)."""
    kind, settings = dataset._format_type, dataset._format_kwargs or {}
    if kind not in _FORMATS or settings:
        raise Unsupported(f"its format is {kind!r}" + (" with settings of its own" if settings else ""))
    chosen = dataset._format_columns
    return kind, None if chosen is None else tuple(chosen), bool(dataset._output_all_columns), settings


def _is_plain(feature: Any) -> bool:
    inner = getattr(feature, "feature", None)
    return type(feature).__name__ in _PLAIN_FEATURES and (inner is None or _is_plain(inner))


class _Column(ABC):
    """One column, chunk by chunk; nothing is copied."""

    def __init__(self, column: Any) -> None:
        chunks = [chunk for chunk in column.chunks if len(chunk)]
        self._ends = np.cumsum([len(chunk) for chunk in chunks], dtype=np.int64)
        self._readers = [self.reader(chunk) for chunk in chunks]

    @abstractmethod
    def reader(self, chunk: Any) -> Rows:
        """How values are read from this chunk."""

    def rows(self, wanted: Any) -> Any:
        """(B, ...) the values at these positions of the column."""
        if len(self._readers) == 1:
            return self._readers[0](wanted)
        part_of = np.searchsorted(self._ends, wanted, side="right")
        order = np.argsort(part_of, kind="stable")
        numbers, begins = np.unique(part_of[order], return_index=True)
        parts = []
        for number, places in zip(numbers.tolist(), np.split(order, begins[1:]), strict=True):
            start = int(self._ends[number - 1]) if number else 0
            parts.append(self._readers[number](wanted[places] - start))
        if len({part.shape[1:] for part in parts}) > 1:
            raise Unsupported("lists of different lengths")
        joined = np.concatenate(parts)
        back = np.empty_like(joined)
        back[order] = joined
        return back


@final
class _Numbers(_Column):
    """Numbers of one type."""

    def reader(self, chunk: Any) -> Rows:
        values = chunk.to_numpy(zero_copy_only=True)
        return lambda wanted: values[wanted]


@final
class _Bits(_Column):
    """Truth values, of which Arrow keeps eight in a byte."""

    def reader(self, chunk: Any) -> Rows:
        return lambda wanted: np.array(_taken(chunk, wanted).to_numpy(zero_copy_only=False))


@final
class _Text(_Column):
    """Strings."""

    def reader(self, chunk: Any) -> Rows:
        return lambda wanted: np.array(_taken(chunk, wanted).to_pylist(), dtype=object)


@final
class _Lists(_Column):
    """A list of numbers in each row."""

    def reader(self, chunk: Any) -> Rows:
        if not hasattr(chunk, "offsets"):  # all of one size
            if chunk.type.list_size == 0:
                raise Unsupported("lists without elements")
            table = _values(chunk.flatten()).reshape(-1, chunk.type.list_size)
            return lambda wanted: table[wanted]
        offsets, values = chunk.offsets.to_numpy(), _values(chunk.values)

        def read(wanted: Any) -> Any:
            starts = offsets[wanted]
            lengths = offsets[wanted + 1] - starts
            length = int(lengths[0])
            if length == 0 or (lengths != length).any():
                raise Unsupported("lists of different lengths")
            return values[starts[:, None] + np.arange(length)]

        return read


def _taken(chunk: Any, wanted: Any) -> Any:
    return chunk.take(sys.modules["pyarrow"].array(wanted))


def _values(array: Any) -> Any:
    if array.null_count:
        raise Unsupported("lists with empty places")
    return array.to_numpy(zero_copy_only=True)


def _kind(arrow_type: Any) -> type[_Column] | None:
    types: Any = sys.modules["pyarrow"].types
    if _is_number(arrow_type):
        return _Numbers
    if types.is_boolean(arrow_type):
        return _Bits
    if types.is_string(arrow_type) or types.is_large_string(arrow_type):
        return _Text
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    if any(is_kind(arrow_type) for is_kind in lists) and _is_number(arrow_type.value_type):
        return _Lists
    return None


def _is_number(arrow_type: Any) -> bool:
    """True for numbers that both a Python number and torch's int64 or float64 can hold."""
    types: Any = sys.modules["pyarrow"].types
    whole = types.is_integer(arrow_type) and not types.is_uint64(arrow_type)
    return bool(whole or types.is_float32(arrow_type) or types.is_float64(arrow_type))


def _makes(kind: type[_Column], form: str | None) -> Callable[[Any], Any]:
    """(B, ...) values of a column -> what comes out of the formatter and of `default_collate`."""
    if kind is _Text:
        return _as_list if form is None else _through_numpy
    if form is not None:
        return _narrow
    return _transposed if kind is _Lists else _wide


def _as_list(values: Any) -> list[str]:
    return list(values)


def _through_numpy(values: Any) -> list[str]:
    """The formatter for torch lets texts pass through an array of NumPy's, which drops zeros at their ends."""
    return list(map(str, np.asarray(values.tolist())))


def _wide(values: Any) -> torch.Tensor:
    """As from Python's own numbers."""
    if values.dtype == np.bool_:
        return torch.from_numpy(values)
    return torch.from_numpy(values.astype(np.float64 if values.dtype.kind == "f" else np.int64))


def _narrow(values: Any) -> torch.Tensor:
    """As from the formatters for torch and NumPy."""
    if values.dtype == np.bool_:
        return torch.from_numpy(values)
    return torch.from_numpy(values.astype(np.float32 if values.dtype.kind == "f" else np.int64))


def _transposed(values: Any) -> list[torch.Tensor]:
    """(B, L) -> L tensors of B numbers: a list of lists is collated place by place."""
    return [_wide(column) for column in values.T]
