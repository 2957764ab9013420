"""The bytes of a tensor, an array or a block of memory as one number, equal as long as nothing in them changes."""

from typing import Any

import numpy as np
import torch
import xxhash

from hotlap.data.item.compare import as_array

# Arrays that are not contiguous are copied so many bytes at a time.
_BYTES_AT_ONCE = 16 << 20


class Unseen(Exception):  # noqa: N818 - reads as the sentence "unseen"
    """Something in a data set that cannot be compared, or not in time; the message says what."""


def of_tensor(value: torch.Tensor) -> object:
    """Of all its elements, whoever wrote them: torch counts no changes through `.data` or a NumPy view."""
    plain = value.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg()
    return str(plain.dtype), of_array(as_array(plain))


def of_bytes(data: Any) -> int:
    """Of a long row of bytes."""
    return xxhash.xxh3_64_intdigest(data)


def of_array(value: Any) -> object:
    """Of all its elements. Not for arrays of objects."""
    about = (value.dtype.str, value.shape)
    if value.dtype.kind == "T":  # texts of any length, which lie elsewhere
        return about, value.ravel().tolist()
    array = np.asarray(value)
    once = array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]
    if not once.size:
        return about
    if once.flags.c_contiguous or not once.ndim:
        return about, of_bytes(np.ascontiguousarray(once).reshape(-1).view(np.uint8))
    rows = max(1, _BYTES_AT_ONCE * len(once) // once.nbytes)
    number = xxhash.xxh3_64()
    for start in range(0, len(once), rows):
        part: Any = np.ascontiguousarray(once[start : start + rows]).reshape(-1).view(np.uint8)
        number.update(part)
    return about, number.intdigest()
