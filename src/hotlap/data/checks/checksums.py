"""The content of a container, a tensor, an array or a frame as one number, equal as long as nothing in it changes."""

import marshal
import sys
import zlib
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import Any

import numpy as np
import torch

from hotlap.data.item.compare import as_array

# Containers are read, and arrays that are not contiguous are copied, so many entries and bytes at a time.
_ENTRIES_AT_ONCE = 1 << 16
_BYTES_AT_ONCE = 16 << 20

# Memory gives no more to further ones: two read 6 GB/s, one 3 GB/s (measured).
_NUM_THREADS = 2

# Plain containers in plain containers, down to here, are compared as one.
_MOST_LEVELS = 16

ATOMS = frozenset({int, float, bool, complex, str, bytes, type(None), type(...)})
CONTAINERS = frozenset({list, tuple, dict, set, frozenset})


class Unseen(Exception):  # noqa: N818 - reads as the sentence "unseen"
    """Something in a data set that cannot be compared, or not in time; the message says what."""


def entries_of(value: Any) -> Collection[Any]:
    """All that a container holds, keys included."""
    return [*value.keys(), *value.values()] if isinstance(value, dict) else value


def plain_texts(value: Any) -> tuple[list[str], int] | None:
    """Texts in a container of plain values and containers of such, and its entries in all; None for any other."""
    texts: list[str] = []
    num_entries = 0
    level: list[Any] = [value]
    for _ in range(_MOST_LEVELS):
        level = [*chain.from_iterable(map(entries_of, level))]
        num_entries += len(level)
        kinds = set(map(type, level))
        if not kinds <= ATOMS | CONTAINERS:
            return None
        if str in kinds:
            texts += [part for part in level if type(part) is str]
        level = [part for part in level if type(part) in CONTAINERS] if kinds & CONTAINERS else []
        if not level:
            return texts, num_entries
    return None


def of_plain(value: Any) -> int:
    """Of all that is in a container: by value and type, however deep. (Version 2 of the format knows no references.)"""
    try:
        if isinstance(value, dict):
            return zlib.crc32(marshal.dumps(value, 2))
        number, entries = len(value), iter(value)
        while part := [*islice(entries, _ENTRIES_AT_ONCE)]:
            number = zlib.crc32(marshal.dumps(part, 2), number)
    except ValueError:  # there is something else in it now
        return -1
    return number


def of_tensor(value: torch.Tensor) -> object:
    """Of all its elements, whoever wrote them: torch counts no changes through `.data` or a NumPy view."""
    plain = value.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg()
    return str(plain.dtype), of_array(as_array(plain))


def of_bytes(data: Any) -> list[int]:
    """Of each block of a long row of bytes; zlib leaves the interpreter to others meanwhile, so that threads help."""
    view = memoryview(data)
    starts = range(0, len(view), _BYTES_AT_ONCE)
    if len(starts) < 2:
        return [zlib.crc32(view)]
    with ThreadPoolExecutor(max_workers=_NUM_THREADS) as pool:
        return list(pool.map(lambda start: zlib.crc32(view[start : start + _BYTES_AT_ONCE]), starts))


def _of_all(parts: Iterable[Any]) -> int:
    number = 0
    for part in parts:
        number = zlib.crc32(part, number)
    return number


def of_array(value: Any) -> object:
    """Of all its elements. Not for arrays of objects."""
    about = (value.dtype.str, value.shape)
    if value.dtype.kind == "T":  # texts of any length, which lie elsewhere
        return about, of_plain(value.ravel().tolist())
    array = np.asarray(value)
    once = array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]
    if not once.size:
        return about
    if once.flags.c_contiguous or not once.ndim:
        return about, of_bytes(np.ascontiguousarray(once).reshape(-1).view(np.uint8))
    rows = max(1, _BYTES_AT_ONCE * len(once) // once.nbytes)
    parts = (once[start : start + rows] for start in range(0, len(once), rows))
    return about, _of_all(np.ascontiguousarray(part).reshape(-1).view(np.uint8) for part in parts)


def is_frame(value: Any) -> bool:
    """True for what `of_frame` takes."""
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return False
    return isinstance(value, (pandas.DataFrame, pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray))


def of_frame(value: Any) -> object:
    """A frame, a series, an index or an array of pandas: all values, row by row."""
    pd: Any = sys.modules["pandas"]
    if isinstance(value, pd.DataFrame):
        columns = [str(name) for name in value.columns]
        return columns, [of_frame(value.iloc[:, place]) for place in range(len(columns))]
    values = value if isinstance(value, pd.Index) else pd.Series(value, copy=False)
    if values.dtype == object and pd.api.types.infer_dtype(values, skipna=False) in ("mixed", "mixed-integer"):
        raise Unseen("changes inside of a pandas column of objects cannot be seen")
    hashed = pd.util.hash_pandas_object(values, index=True)
    return str(values.dtype), zlib.crc32(hashed.to_numpy().view(np.uint8))
