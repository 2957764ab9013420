"""What lies deep in a data set, as one number: entries of large containers, and bytes of arrays.

A `Watch` compares objects in 0.3 us each and is asked before every batch, so it looks neither into large containers
nor into arrays. Where a copy of the data set is to be used for a whole epoch, there is time to look once more.
"""

import types
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from hotlap.data.determinism import MAX_CHILDREN, MAX_DEPTH

# Of a larger array so many blocks, evenly spaced, are looked at: CRC-32 reads 3 GB/s, so that this takes 1 ms.
_WHOLE_BYTES = 2 << 20
_BLOCK_BYTES = 8 << 10
_NUM_BLOCKS = 256

# Objects that are looked at; a data set with more is taken for what it was.
_MOST_OBJECTS = 512

_SIMPLE = frozenset({int, float, bool, complex, str, bytes, type(None)})


def contents(*roots: Any) -> int:
    """Equal as long as nothing has changed in what can be reached from these objects."""
    number = 0
    for part in _walk(roots):
        number = zlib.crc32(part, number)
    return number


def _walk(roots: tuple[Any, ...]) -> Iterator[bytes]:
    waiting = [(root, 0) for root in roots]
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_OBJECTS:
        value, depth = waiting.pop()
        if id(value) in seen or type(value) in _SIMPLE or depth > MAX_DEPTH:
            continue
        seen.add(id(value))
        part, children = _open(value)
        yield part
        waiting.extend((child, depth + 1) for child in children)


def _open(value: Any) -> tuple[bytes, list[Any]]:
    """(what the value itself is, what else is to be looked at)."""
    if isinstance(value, np.ndarray):
        return _of_array(value), []
    if isinstance(value, torch.Tensor):
        known = value.device.type == "cpu" and value.layout is torch.strided and not value.is_quantized
        return (_of_tensor(value) if known else b""), []
    if isinstance(value, list | tuple | dict | set | frozenset):
        return _of_container(value), _children(value) if len(value) <= MAX_CHILDREN else []
    if isinstance(value, type | types.ModuleType | types.FunctionType | types.BuiltinFunctionType):
        return b"", []
    return b"", [*getattr(value, "__dict__", {}).values()]


def _children(value: Any) -> list[Any]:
    return [*value.values()] if isinstance(value, dict) else [*value]


def _of_container(value: Any) -> bytes:
    """By identity: an entry that was replaced is another object (but for small numbers, which are what they are)."""
    return np.fromiter(map(id, _children(value)), np.uint64, len(value)).tobytes()


def _of_array(value: Any) -> bytes:
    if value.dtype.hasobject:
        return _of_container(value.ravel().tolist())
    return _of_bytes(value)


def _of_tensor(value: torch.Tensor) -> bytes:
    plain = value.detach().resolve_conj().resolve_neg()
    try:
        return _of_bytes(plain.numpy())
    except TypeError:  # NumPy has no bfloat16
        return _of_bytes(plain.view(torch.uint8).numpy()) if plain.ndim else str(plain.item()).encode()


def _of_bytes(value: Any) -> bytes:
    """Checksum of an array's bytes, or of some of them."""
    about = f"{value.dtype} {value.shape} {value.strides}".encode()
    if value.nbytes <= _WHOLE_BYTES or not value.flags.c_contiguous:
        sample = value if value.nbytes <= _WHOLE_BYTES else value.ravel(order="K")[:: max(1, value.size >> 16)]
        as_bytes: Any = np.ascontiguousarray(sample).reshape(-1).view(np.uint8)
        return about + zlib.crc32(as_bytes).to_bytes(4, "little")
    flat = value.reshape(-1).view(np.uint8)
    checksum = 0
    for number in range(_NUM_BLOCKS):
        start = number * (len(flat) - _BLOCK_BYTES) // (_NUM_BLOCKS - 1)
        checksum = zlib.crc32(flat[start : start + _BLOCK_BYTES], checksum)
    return about + checksum.to_bytes(4, "little")
