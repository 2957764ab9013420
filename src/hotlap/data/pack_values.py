"""A value of an item -> bytes that say all of it, and back. Nothing is pickled: what is read back is data, never code.

The bytes are MessagePack; what MessagePack does not know (a tuple, a tensor, a picture, a large number) is an extension
whose content is MessagePack again. Equal bytes mean equal values, down to NaN, the sign of a zero, and strides.
"""

from collections import OrderedDict
from collections.abc import Callable
from math import prod
from typing import Any

import msgspec
import numpy as np
import torch

from hotlap.data.items import Unsupported, copy_tensor, is_picture, is_plain_tensor, tensor_bytes

_ARRAY_KINDS = frozenset("biufcSUMm")

# Codes of extensions, which stand in files.
_TUPLE, _ORDERED, _LARGE, _COMPLEX, _TEXT, _TENSOR, _ARRAY, _SCALAR, _PICTURE, _DICT = range(1, 11)

# MessagePack's integers end here.
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1

_KEYS = frozenset({int, float, bool, str, bytes, type(None)})


class Damaged(ValueError):  # noqa: N818 - reads as the sentence "damaged"
    """Bytes that cannot have been written by `encode`."""


def encode(value: Any) -> bytes:
    """All of a value.

    Raises:
        Unsupported: it holds something that is more than its data; the message says what.
    """
    try:
        return msgspec.msgpack.encode(_tree(value))
    except RecursionError:
        raise Unsupported("an item holds itself, or is nested too deeply") from None


def decode(data: Any) -> Any:
    """The value, in memory of its own.

    Raises:
        Damaged: these are no such bytes.
    """
    try:
        return _DECODER.decode(data)
    except Damaged:
        raise
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, RuntimeError, RecursionError) as error:
        raise Damaged(str(error)) from error


def element_type(name: str) -> torch.dtype:
    """ "float32" -> torch.float32."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise Damaged(f"torch has no type {name}")
    return found


def array_type(name: str) -> Any:
    """ "<f4" -> its NumPy data type."""
    found = np.dtype(name)
    if not bytes_say_all(found):
        raise Damaged(f"arrays of {name} are not kept")
    return found


def bytes_say_all(dtype: Any) -> bool:
    """True for a NumPy data type whose bytes are the value: no objects, no records, no padding."""
    return dtype.kind in _ARRAY_KINDS and dtype.itemsize > 0 and dtype.char not in "gG"


def tensor_strides(value: torch.Tensor) -> tuple[int, ...] | None:
    """None for those that a new tensor of this shape has."""
    usual = torch.empty(value.shape, device="meta").stride()
    return None if value.stride() == usual else value.stride()


def tensor_of(raw: Any, dtype: torch.dtype, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> torch.Tensor:
    """A new tensor with these bytes: elements in order, whatever the strides."""
    if len(raw) != prod(shape) * dtype.itemsize:
        raise Damaged(f"{len(raw)} bytes for a tensor of {prod(shape)} {dtype}")
    value = torch.empty(shape, dtype=dtype, device="cpu")
    if len(raw):
        try:
            memory = value.numpy()
        except TypeError:  # NumPy has no bfloat16
            memory = tensor_bytes(value).numpy()
        memory[...] = np.frombuffer(raw, memory.dtype).reshape(memory.shape)
    return value if strides is None else copy_tensor(value, strides)


def array_strides(value: Any) -> tuple[int, ...] | None:
    """Those of a copy that keeps the order of the dimensions in memory; None for C order."""
    dense = value if value.flags.c_contiguous else np.empty_like(value, order="K")
    return None if dense.flags.c_contiguous else tuple(dense.strides)


def array_of(raw: Any, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> Any:
    """A new array with these bytes: elements in C order, whatever the strides."""
    if len(raw) != prod(shape) * dtype.itemsize:
        raise Damaged(f"{len(raw)} bytes for an array of {prod(shape)} {dtype}")
    value = np.frombuffer(raw, dtype).reshape(shape) if len(raw) else np.empty(shape, dtype)
    if strides is None:
        return value.copy()
    copy: Any = np.ndarray(shape, dtype, strides=strides)
    copy[...] = value
    return copy


def check_array(value: Any) -> None:
    """`Unsupported` for an array that is more than numbers or text."""
    if type(value) is not np.ndarray or not bytes_say_all(value.dtype):
        raise Unsupported(f"an item holds a {_named(value)} of {value.dtype}, which is not kept")


def _tree(value: Any) -> Any:
    """The value in terms of MessagePack."""
    known = _TREES.get(type(value))
    if known is not None:
        return known(value)
    if isinstance(value, np.generic) and bytes_say_all(value.dtype):
        return _ext(_SCALAR, [value.dtype.str, value.tobytes()])
    if is_picture(value):
        return _of_picture(value)
    raise Unsupported(f"an item holds a {_named(value)}, which is not kept{_advice(value)}")


def _same(value: Any) -> Any:
    return value


def _ext(code: int, content: Any) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, msgspec.msgpack.encode(content))


def _of_int(value: int) -> Any:
    return value if _LEAST <= value <= _MOST else _ext(_LARGE, hex(value))


def _of_complex(value: complex) -> Any:
    return _ext(_COMPLEX, [value.real, value.imag])


def _of_text(value: str) -> Any:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: what Python makes of a file name that is no UTF-8
        return _ext(_TEXT, value.encode(errors="surrogatepass"))
    return value


def _of_list(value: list[Any]) -> Any:
    return [_tree(part) for part in value]


def _of_tuple(value: tuple[Any, ...]) -> Any:
    return _ext(_TUPLE, [_tree(part) for part in value])


def _of_dict(value: dict[Any, Any]) -> Any:
    if all(type(key) is str and key.isprintable() for key in value):
        return {key: _tree(part) for key, part in value.items()}
    return _ext(_DICT, _pairs(value))


def _of_ordered(value: Any) -> Any:
    return _ext(_ORDERED, _pairs(value))


def _pairs(value: dict[Any, Any]) -> Any:
    for key in value:
        if type(key) not in _KEYS:
            raise Unsupported(f"an item holds a dict with a key that is a {_named(key)}, which is not kept")
    return [[_tree(key), _tree(part)] for key, part in value.items()]


def _of_tensor(value: torch.Tensor) -> Any:
    if not is_plain_tensor(value):
        what = "requires a gradient" if value.requires_grad else f"is {value.layout} on {value.device}"
        raise Unsupported(f"an item holds a tensor that {what}; only plain CPU tensors are kept")
    name = str(value.dtype).removeprefix("torch.")
    strides = tensor_strides(value)
    return _ext(_TENSOR, [name, [*value.shape], strides and [*strides], tensor_bytes(value).numpy().tobytes()])


def _of_array(value: Any) -> Any:
    check_array(value)
    strides = array_strides(value)
    about = [value.dtype.str, [*value.shape], strides and [*strides], bool(value.flags.writeable)]
    return _ext(_ARRAY, [*about, value.tobytes()])


def _of_picture(value: Any) -> Any:
    """Pixels, palette, and what the file said beside them (`info`: EXIF, resolution, ...)."""
    palette = None if value.palette is None else [value.palette.mode, bytes(value.getpalette(value.palette.mode))]
    about = [value.mode, [*value.size], palette, _of_dict(value.info)]
    return _ext(_PICTURE, [*about, value.tobytes()])


_TREES: dict[type, Callable[[Any], Any]] = {
    type(None): _same,
    bool: _same,
    float: _same,
    bytes: _same,
    int: _of_int,
    complex: _of_complex,
    str: _of_text,
    list: _of_list,
    tuple: _of_tuple,
    dict: _of_dict,
    OrderedDict: _of_ordered,
    torch.Tensor: _of_tensor,
    np.ndarray: _of_array,
}


def _from_ext(code: int, data: memoryview) -> Any:
    make = _MAKERS.get(code)
    if make is None:
        raise Damaged(f"unknown kind {code}")
    return make(_DECODER.decode(data))


def _to_array(content: Any) -> Any:
    name, shape, strides, writeable, raw = content
    value = array_of(raw, array_type(name), tuple(shape), strides and tuple(strides))
    value.flags.writeable = writeable
    return value


def _to_tensor(content: Any) -> torch.Tensor:
    name, shape, strides, raw = content
    return tensor_of(raw, element_type(name), tuple(shape), strides and tuple(strides))


def _to_picture(content: Any) -> Any:
    from PIL import Image

    mode, (width, height), palette, info, raw = content
    if width * height > 8 * len(raw):  # no mode has less than one bit for a pixel
        raise Damaged(f"{len(raw)} bytes for a picture of {width} x {height}")
    value = Image.frombytes(mode, (width, height), raw)
    if palette is not None:
        value.putpalette(palette[1], palette[0])
        # The palette says its mode; `putpalette` may also have changed that of a grey picture.
        if value.mode != mode:
            raise Damaged(f"a palette for a picture in mode {mode}")
    value.info = info
    return value


_MAKERS: dict[int, Callable[[Any], Any]] = {
    _TUPLE: tuple,
    _DICT: dict,
    _ORDERED: OrderedDict,
    _LARGE: lambda text: int(text, 16),
    _COMPLEX: lambda parts: complex(*parts),
    _TEXT: lambda data: data.decode(errors="surrogatepass"),
    _TENSOR: _to_tensor,
    _ARRAY: _to_array,
    _SCALAR: lambda content: np.frombuffer(content[1], array_type(content[0]))[0],
    _PICTURE: _to_picture,
}

_DECODER = msgspec.msgpack.Decoder(ext_hook=_from_ext)


def _named(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _advice(value: Any) -> str:
    if type(value).__module__.startswith("PIL."):
        return ' (a picture with its file still open: return picture.convert("RGB"), or picture.copy())'
    if isinstance(value, tuple | dict | list | torch.Tensor | np.ndarray):
        return " (only its plain form: tuple, dict, list, torch.Tensor, numpy.ndarray)"
    return ""
