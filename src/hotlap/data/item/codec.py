"""Items and batches taken apart: compared byte by byte, looked through for shared memory, and <-> bytes.

What comes out of bytes is new, and the same. Pictures, tensors and arrays give their bytes without a copy in between
(pickle protocol 5, out-of-band buffers). Only what is known to be its bytes is packed; anything else might not come out
as the very object that is expected.
"""

import io
import pickle
import types
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, final

import numpy as np
import torch
from torch.utils._pytree import TreeSpec, tree_flatten

from hotlap.native import extension

# Immutable: may be handed out again as they are. Exact types only; a subclass may carry more.
_ATOMS = frozenset({int, float, bool, complex, str, bytes, type(None)})

# What pickle itself brings back as it was.
_BY_PICKLE = (
    types.FunctionType, types.BuiltinFunctionType, type, np.dtype, torch.dtype, torch.Size, Enum, np.generic, complex
)  # fmt: skip


class CannotKeep(Exception):  # noqa: N818 - reads as the sentence "cannot keep"
    """Items cannot be kept, or not in the way that was tried; the message says why."""


def flatten_batch(batch: Any) -> tuple[list[Any], TreeSpec]:
    """(leaves, structure) of what `default_collate` returns: the texts of B items are one leaf."""
    return tree_flatten(batch, is_leaf=_is_texts)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and isinstance(value[0], str | bytes)


def is_kind_of_picture(kind: type) -> bool:
    """True for the class of plain PIL images (one that a file is still open behind is another type)."""
    return kind.__module__ == "PIL.Image" and kind.__name__ == "Image"


def is_plain_tensor(value: Any) -> bool:
    """True for an ordinary dense CPU tensor that carries no gradient: one whose bytes are all that it is."""
    return (
        type(value) is torch.Tensor
        and value.layout is torch.strided
        and value.is_cpu
        and not (value.requires_grad or value.is_quantized or value.is_nested or value.is_conj() or value.is_neg())
    )


def unmarked(value: Any) -> Any:
    """The plain tensor where torchvision says of one that it is an image, and nothing more of it; else the value."""
    if _is_marked(type(value)) and not value.__dict__:
        with torch._C.DisableTorchFunctionSubclass():
            return value.as_subclass(torch.Tensor)
    return value


def _is_marked(kind: type) -> bool:
    return kind.__module__.startswith("torchvision.tv_tensors")


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


def same(left: Any, right: Any) -> bool:
    """True if both are of the same types and bytes all the way down; False too for what cannot be compared."""
    try:
        return _in_full(left) == _in_full(right)
    except CannotKeep:
        return False


def _in_full(value: Any) -> list[bytes]:
    """As `pack`, what is there twice twice."""
    return [bytes(part) for part in pack(value, by_value=True)]


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


def pack(value: Any, *, by_value: bool = False) -> list[Any]:
    """One description and its buffers, all of them bytes-like; `CannotKeep` names what cannot be packed. `by_value`:
    equal values give equal ones, whether some of their parts are one object or not."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    packer = _Packer(stream, protocol=5, buffer_callback=buffers.append)
    packer.fast = by_value
    try:
        packer.dump(value)
        return [stream.getbuffer(), *(buffer.raw() for buffer in buffers)]
    except (pickle.PicklingError, BufferError, AttributeError, TypeError, ValueError) as error:
        raise CannotKeep(f"{type(error).__name__}: {error}") from error


def unpack(parts: list[Any], *, lazily: bool = False) -> Any:
    """A new object; it shares nothing with the parts. `lazily`: but for pictures that nobody has changed yet."""
    kind = _LazyUnpickler if lazily else pickle.Unpickler
    return kind(io.BytesIO(parts[0]), buffers=parts[1:]).load()


@final
class _LazyUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _lazy_picture if name == picture.__name__ else super().find_class(module, name)


@final
class _Packer(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        named = isinstance(value, tuple) and hasattr(kind, "_fields")
        if named or kind is OrderedDict or isinstance(value, _BY_PICKLE) or getattr(kind, "_hotlap_packs", False):
            return NotImplemented
        if is_plain_tensor(value):
            return _pack_tensor(value)
        if is_kind_of_picture(value.__class__):  # of a lazy one of ours as well
            return _pack_picture(value)
        if kind is np.ndarray:
            return _pack_array(value)
        if _is_marked(kind):
            return _pack_marked(value)
        raise CannotKeep(f"it holds a {_what(value)}, which might not come out the same")


def _what(value: Any) -> str:
    if type(value) is torch.Tensor and value.requires_grad:
        return "tensor that requires a gradient"
    if isinstance(value, torch.Tensor) and value.device.type != "cpu":
        return f"tensor on {value.device}"
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _pack_tensor(value: torch.Tensor) -> Any:
    strides = dense_strides(value)
    order = sorted(range(value.ndim), key=lambda dim: -strides[dim])
    as_bytes: Any = tensor_bytes(value.permute(order)).numpy()
    data = pickle.PickleBuffer(as_bytes) if value.numel() else None
    return _tensor, (data, value.dtype, tuple(value.shape), strides)


def _tensor(data: Any, dtype: torch.dtype, shape: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
    made = torch.empty_strided(shape, strides, dtype=dtype, device="cpu")
    if data is not None:
        tensor_bytes(made.as_strided((made.numel(),), (1,))).numpy()[:] = np.frombuffer(data, np.uint8)
    return made


def _pack_picture(value: Any) -> Any:
    palette = None if value.palette is None else (value.getpalette(value.palette.mode), value.palette.mode)
    return picture, (value.mode, value.size, pickle.PickleBuffer(value.tobytes()), palette, dict(value.info))


# Bytes that Pillow keeps for a pixel of these modes.
_PIXEL_BYTES = {"L": 1, "P": 1, "RGB": 4, "RGBA": 4}


def pixels_of(image: Any) -> Any:
    """The pixels of a plain image of PIL's, row by row. Where Pillow keeps them, since its 11.2, with what a mode of
    three colours leaves unused: a copy takes some times as long as all else. It must live as long as they are read."""
    width, height = image.size
    num_bytes = _PIXEL_BYTES.get(image.mode, 0) * width * height
    core = extension().module
    if num_bytes and core is not None:
        try:
            return core.picture_bytes(image.im.__arrow_c_array__(), num_bytes)
        except (AttributeError, ValueError):  # an older Pillow, or they are not in one piece
            pass
    return image.tobytes()


def picture(mode: str, size: tuple[int, int], data: Any, palette: Any, info: dict[Any, Any]) -> Any:
    """An image of PIL's."""
    from PIL import Image

    made: Any = Image.frombytes(mode, size, data)
    if palette is not None:
        made.putpalette(*palette)
    made.info = info
    return made


def _lazy_picture(mode: str, size: tuple[int, int], data: Any, palette: Any, info: dict[Any, Any]) -> Any:
    from hotlap.data.item.pictures import lazy_picture

    made = lazy_picture(mode, size, data, info) if palette is None else None
    return picture(mode, size, data, palette, info) if made is None else made


def _pack_array(value: Any) -> Any:
    if value.dtype.kind not in "biufcSU" or not value.itemsize:
        raise CannotKeep(f"it holds an array of {value.dtype} that is not plain")
    dense = value.copy(order="K")
    # Texts have no buffer of their own kind; their bytes have.
    as_bytes: Any = dense.ravel(order="K").view(np.uint8)
    return _array, (pickle.PickleBuffer(as_bytes), value.dtype.str, value.shape, dense.strides, value.flags.writeable)


def _array(data: Any, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], writeable: bool) -> Any:
    made: Any = np.ndarray(shape, dtype, np.array(memoryview(data)), strides=strides)
    made.flags.writeable = writeable
    return made


def _pack_marked(value: Any) -> Any:
    plain = value.as_subclass(torch.Tensor)
    if not is_plain_tensor(plain):
        raise CannotKeep("it holds a tensor that is not a plain one")
    return _marked, (type(value), plain, dict(value.__dict__))


def _marked(kind: type[Any], plain: torch.Tensor, marks: dict[str, Any]) -> Any:
    made = plain.as_subclass(kind)
    made.__dict__.update(marks)
    return made
