"""One item of a data set: what can be kept of it, compared byte by byte, and looked through for shared memory."""

import struct
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import TreeSpec, tree_flatten

# Immutable: may be handed out again as they are. Exact types only; a subclass may carry more.
_ATOMS = frozenset({int, float, bool, complex, str, bytes, type(None)})


class Unsupported(Exception):  # noqa: N818 - reads as the sentence "unsupported"
    """An item that cannot be kept; the message says why."""


def flatten_batch(batch: Any) -> tuple[list[Any], TreeSpec]:
    """(leaves, structure) of what `default_collate` returns: the texts of B items are one leaf."""
    return tree_flatten(batch, is_leaf=_is_texts)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and isinstance(value[0], str | bytes)


def is_picture(value: Any) -> bool:
    """True for a plain PIL image (one that a file is still open behind is another type)."""
    return is_kind_of_picture(value.__class__)  # of a lazy one of ours as well


def is_kind_of_picture(kind: type) -> bool:
    """True for the class of plain PIL images."""
    return kind.__module__ == "PIL.Image" and kind.__name__ == "Image"


def is_plain_tensor(value: Any) -> bool:
    """True for an ordinary dense CPU tensor that carries no gradient: one whose bytes are all that it is."""
    return (
        type(value) is torch.Tensor
        and value.layout is torch.strided
        and value.is_cpu
        and not (value.requires_grad or value.is_quantized or value.is_nested or value.is_conj() or value.is_neg())
    )


def is_marked(value: Any) -> bool:
    """True for torchvision's tensors that know what they show."""
    return type(value).__module__.startswith("torchvision.tv_tensors")


def dense_strides(value: torch.Tensor) -> tuple[int, ...]:
    """Those of a copy (`clone`): its own, where all its elements lie side by side, each once."""
    return torch.empty_like(value).stride()


def as_array(value: torch.Tensor) -> Any:
    """The same memory for NumPy, which has no bfloat16, no float8 and no complex32."""
    try:
        return value.numpy()
    except TypeError:
        return value.view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[value.element_size()]).numpy()


def tensor_bytes(value: torch.Tensor) -> torch.Tensor:
    """The elements in order, as one row of bytes: so that NaN equals itself and -0.0 differs from 0.0."""
    flat = value.detach().contiguous()
    # A single element counts as contiguous whatever its stride, and then cannot be viewed as bytes.
    return flat.as_strided((flat.numel(),), (1,)).view(torch.uint8)


def same_tensor(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equal in type, shape and bytes; strides are not looked at."""
    return (
        left.dtype == right.dtype and left.shape == right.shape and torch.equal(tensor_bytes(left), tensor_bytes(right))
    )


def same_array(left: Any, right: Any) -> bool:
    """Equal in type, shape and bytes; strides are not looked at. Serves numpy scalars too."""
    return bool(left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes())


def same(left: Any, right: Any) -> bool:
    """True if both are of the same types and bytes all the way down; False too for what cannot be compared."""
    (lefts, one), (rights, other) = tree_flatten(left), tree_flatten(right)
    return (
        one == other
        and all(type(left) is type(right) for left, right in zip(lefts, rights, strict=True))
        and all(map(_same_leaf, lefts, rights))
    )


def _same_leaf(left: Any, right: Any) -> bool:
    if is_marked(left):
        return vars(left) == vars(right) and _same_leaf(*(value.as_subclass(torch.Tensor) for value in (left, right)))
    if isinstance(left, torch.Tensor):
        return is_plain_tensor(left) and is_plain_tensor(right) and same_tensor(left, right)
    if isinstance(left, np.ndarray | np.generic):
        return not left.dtype.hasobject and same_array(left, right)
    if isinstance(left, float):
        return struct.pack("d", left) == struct.pack("d", right)
    if type(left) in _ATOMS or isinstance(left, Enum) or hasattr(type(left), "_hotlap_packs"):
        return bool(left == right)
    return is_picture(left) and same(_about(left), _about(right))


def _about(picture: Any) -> list[Any]:
    return [picture.mode, picture.size, picture.tobytes(), picture.getpalette(), picture.info]


def parts(item: Any) -> Iterator[Any]:
    """The item and all that it consists of, containers included."""
    yield item
    if isinstance(item, tuple | list):
        for part in item:
            yield from parts(part)
    elif isinstance(item, dict):
        for part in item.values():
            yield from parts(part)


def _memory(value: Any) -> int | None:
    """What tells the memory of a mutable value from that of others; None for an immutable or empty one."""
    if isinstance(value, torch.Tensor):
        try:
            return value.untyped_storage().data_ptr() or None
        except (NotImplementedError, RuntimeError):  # sparse tensors have no storage
            return id(value)
    if isinstance(value, np.ndarray):
        owner = value
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        address: int = owner.__array_interface__["data"][0]
        return address if owner.size else None
    if type(value) in _ATOMS or isinstance(value, tuple | Enum | np.generic):
        return None
    return id(value)


def shares_memory(left: Any, right: Any) -> bool:
    """True if changing one in place could change the other."""
    seen = {_memory(part) for part in parts(left)} - {None}
    return any(_memory(part) in seen for part in parts(right))


def entangled(item: Any) -> bool:
    """True if one part of the item is the same memory as another: copies of the parts would come apart."""
    return _repeats(map(_memory, parts(item)))


def holds_views(item: Any) -> bool:
    """True if two objects in it are the same memory: copies of them come apart, unlike one that is there twice."""
    return _repeats({id(part): _memory(part) for part in parts(item)}.values())


def _repeats(places: Iterable[int | None]) -> bool:
    known = [place for place in places if place is not None]
    return len(set(known)) < len(known)
