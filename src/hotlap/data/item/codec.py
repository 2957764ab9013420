"""Items, and objects between the steps of a pipeline <-> bytes: what comes out is new, and the same.

Pictures, tensors and arrays give their bytes without a copy in between (pickle protocol 5, out-of-band buffers). Only
what is known to be its bytes is packed; anything else might not come out as the very object that is expected.
"""

import io
import pickle
import types
from collections import OrderedDict
from enum import Enum
from typing import Any, final

import numpy as np
import torch

from hotlap.data.item.compare import (
    Unsupported,
    dense_strides,
    is_marked,
    is_picture,
    is_plain_tensor,
    tensor_bytes,
)

# What pickle itself brings back as it was.
_BY_PICKLE = (
    types.FunctionType, types.BuiltinFunctionType, type, np.dtype, torch.dtype, torch.Size, Enum, np.generic, complex
)  # fmt: skip


def pack(value: Any) -> list[Any]:
    """One description and its buffers, all of them bytes-like; `Unsupported` names what cannot be packed."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    try:
        _Packer(stream, protocol=5, buffer_callback=buffers.append).dump(value)
        return [stream.getbuffer(), *(buffer.raw() for buffer in buffers)]
    except (pickle.PicklingError, BufferError, AttributeError, TypeError) as error:
        raise Unsupported(f"{type(error).__name__}: {error}") from error


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
        if is_picture(value):
            return _pack_picture(value)
        if kind is np.ndarray:
            return _pack_array(value)
        if is_marked(value):
            return _pack_marked(value)
        raise Unsupported(f"it holds a {_what(value)}, which might not come out the same")


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
        raise Unsupported(f"it holds an array of {value.dtype} that is not plain")
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
        raise Unsupported("it holds a tensor that is not a plain one")
    return _marked, (type(value), plain, dict(value.__dict__))


def _marked(kind: type[Any], plain: torch.Tensor, marks: dict[str, Any]) -> Any:
    made = plain.as_subclass(kind)
    made.__dict__.update(marks)
    return made
