"""Objects between the steps of a pipeline <-> bytes in shared memory: what comes out is new, and the same.

Pictures, tensors and arrays give their bytes without a copy in between (pickle protocol 5, out-of-band buffers). Only
what is known to be its bytes is packed; anything else might not come out as the very object that a transform expects.
"""

import io
import pickle
import types
from collections import OrderedDict
from enum import Enum
from typing import Any, final

import numpy as np
import torch

from hotlap.data.items import Unsupported, is_named_tuple, is_picture, is_plain_tensor, overlaps

_PLAIN = (types.FunctionType, types.BuiltinFunctionType, types.BuiltinMethodType, type)


def pack(value: Any) -> list[Any]:
    """One description and its buffers, all of them bytes-like; `Unsupported` names what cannot be packed."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    try:
        _Packer(stream, protocol=5, buffer_callback=buffers.append).dump(value)
        return [stream.getbuffer(), *(buffer.raw() for buffer in buffers)]
    except (pickle.PicklingError, BufferError, AttributeError, TypeError) as error:
        raise Unsupported(f"{type(error).__name__}: {error}") from error


def unpack(parts: list[Any]) -> Any:
    """A new object; it shares nothing with the parts."""
    return pickle.loads(parts[0], buffers=parts[1:])


@final
class _Packer(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if (
            isinstance(value, _PLAIN)
            or type(value) is np.dtype
            or isinstance(value, np.dtype | torch.dtype | torch.Size)
        ):
            return NotImplemented
        if is_plain_tensor(value):
            return _pack_tensor(value)
        if is_picture(value):
            return _pack_picture(value)
        if type(value) is np.ndarray:
            return _pack_array(value)
        if type(value).__module__.startswith("torchvision.tv_tensors"):
            return _pack_marked(value)
        known = isinstance(value, Enum | np.generic) or is_named_tuple(value) or type(value) is OrderedDict
        if known or getattr(type(value), "_hotlap_packs", False):
            return NotImplemented
        raise Unsupported(f"a transform is handed a {type(value).__module__}.{type(value).__qualname__}")


def _pack_tensor(value: torch.Tensor) -> Any:
    if overlaps(tuple(value.shape), value.stride()):
        raise Unsupported("a transform is handed a tensor whose elements share memory")
    flat = _elements(value)
    as_bytes: Any = flat.view(torch.uint8).numpy()
    data = pickle.PickleBuffer(as_bytes) if flat.numel() else None
    return _tensor, (data, value.dtype, tuple(value.shape), value.stride())


def _elements(value: torch.Tensor) -> torch.Tensor:
    """(E,) all elements in the order of their memory."""
    strides = value.stride()
    order = sorted(range(value.ndim), key=lambda dim: -strides[dim])
    flat = value.detach().permute(order).contiguous()
    return flat.as_strided((flat.numel(),), (1,))


def _tensor(data: Any, dtype: torch.dtype, shape: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
    made = torch.empty_strided(shape, strides, dtype=dtype, device="cpu")
    if data is None:
        return made
    order = sorted(range(made.ndim), key=lambda dim: -strides[dim])
    dense = made.permute(order)
    rows = dense if dense.is_contiguous() else torch.empty(dense.shape, dtype=dtype, device="cpu")
    rows.as_strided((rows.numel(),), (1,)).view(torch.uint8).numpy()[:] = np.frombuffer(data, np.uint8)
    if rows is not dense:
        dense.copy_(rows)
    return made


def _pack_picture(value: Any) -> Any:
    palette = value.getpalette("RGB") if value.mode == "P" else None
    return _picture, (value.mode, value.size, pickle.PickleBuffer(value.tobytes()), palette, dict(value.info))


def _picture(mode: str, size: tuple[int, int], data: Any, palette: Any, info: dict[str, Any]) -> Any:
    from PIL import Image

    made: Any = Image.frombytes(mode, size, data)
    if palette is not None:
        made.putpalette(palette)
    made.info = info
    return made


def _pack_array(value: Any) -> Any:
    if value.dtype.kind not in "biufcSU" or min(value.strides, default=0) < 0:
        raise Unsupported(f"a transform is handed an array of {value.dtype} that is not plain")
    order = "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else None
    if order is None:
        raise Unsupported("a transform is handed an array that is a view of a larger one")
    flat = value.ravel(order=order)
    # Texts have no buffer of their own kind; their bytes have.
    writeable = value.flags.writeable
    return _array, (pickle.PickleBuffer(flat.view(np.uint8)), value.dtype.str, value.shape, order, writeable)


def _array(data: Any, dtype: str, shape: tuple[int, ...], order: Any, writeable: bool) -> Any:
    made = np.frombuffer(data, np.uint8).copy().view(dtype).reshape(shape, order=order)
    made.flags.writeable = writeable
    return made


def _pack_marked(value: Any) -> Any:
    """torchvision's tensors that know what they show."""
    plain = value.as_subclass(torch.Tensor)
    if not is_plain_tensor(plain):
        raise Unsupported("a transform is handed a tensor that is not a plain one")
    return _marked, (type(value), plain, dict(value.__dict__))


def _marked(kind: type[Any], plain: torch.Tensor, marks: dict[str, Any]) -> Any:
    made = plain.as_subclass(kind)
    made.__dict__.update(marks)
    return made
