"""What an operator was given, by a trace with shapes: sizes, types, and how many operations that makes."""

import ast
import math
import re
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from hotlap.trace.table import Written

Shape = tuple[int, ...]

_JSON = msgspec.json.Decoder()
_TYPES = {
    "float": "float32", "double": "float64", "c10::Half": "float16", "c10::BFloat16": "bfloat16",
    "long int": "int64", "long": "int64", "int": "int32", "short": "int16", "signed char": "int8",
    "unsigned char": "uint8", "bool": "bool",
}  # fmt: skip
# Place of the strides, paddings and dilations among the arguments of forward convolutions, in this order.
_PLACES = {
    "aten::cudnn_convolution": (3, 2, 4), "aten::miopen_convolution": (4, 3, 5),
    "aten::_slow_conv2d_forward": (4, 5, None), "aten::_conv_depthwise2d": (4, 5, 6),
    "aten::slow_conv3d_forward": (4, 5, None),
}  # fmt: skip
_BACKWARD_MASK = 10
_CAUSAL = 8


@dataclass(frozen=True, slots=True)
class Arguments:
    """Of one operator."""

    shapes: tuple[Shape, ...]
    """Of all arguments in their order; () for what is no tensor, and for a tensor of one number."""
    dtype: str
    """Of the first tensor, in torch's words; empty where not told."""
    values: tuple[str, ...]

    def text(self) -> str:
        """ "[1024, 1705] x [1705, 512]": of the tensors."""
        return " x ".join(f"[{', '.join(map(str, shape))}]" for shape in self.shapes if shape)


@lru_cache(maxsize=1 << 12)
def read(written: Written) -> Arguments:
    """What cannot be read is left out: a trace may hold anything."""
    types, values = _texts(written.types), _texts(written.values)
    named = [name for name in types if name and not name.endswith(("Scalar", "List"))]
    return Arguments(
        shapes=_shapes(written.dims),
        dtype=_TYPES.get(named[0], named[0].removeprefix("c10::").lower()) if named else "",
        values=values,
    )


def flop(operator: str, given: Arguments) -> float | None:
    """Multiplications and additions, counted as two; None where that cannot be told."""
    name, shapes = operator, given.shapes
    try:
        if name in ("aten::mm", "aten::bmm"):
            return 2.0 * math.prod(shapes[0]) * shapes[1][-1]
        if name in ("aten::addmm", "aten::baddbmm"):
            return 2.0 * math.prod(shapes[1]) * shapes[2][-1]
        if name == "aten::_flash_attention_forward" and len(shapes[0]) == 4:
            half = 0.5 if given.values[_CAUSAL] == "True" else 1.0
            return half * 4.0 * math.prod(shapes[0]) * shapes[1][1]
        if name == "aten::convolution_backward":
            asked = re.findall("True", given.values[_BACKWARD_MASK].rpartition(",")[0])
            return 2.0 * math.prod(shapes[0]) * math.prod(shapes[2][1:]) * len(asked)
        if name in _PLACES:
            return 2.0 * math.prod(shapes[1]) * shapes[0][0] * math.prod(_output(name, given))
    except (IndexError, ValueError, ZeroDivisionError):
        pass
    return None


def _output(name: str, given: Arguments) -> list[int]:
    """Height, width, ... of what a convolution makes."""
    found = []
    stride, padding, dilation = (None if at is None else _numbers(given.values[at]) for at in _PLACES[name])
    for axis, (size, kernel) in enumerate(zip(given.shapes[0][2:], given.shapes[1][2:], strict=True)):
        step, around = _of_axis(stride, axis), _of_axis(padding, axis)
        spread = 1 if dilation is None else _of_axis(dilation, axis)
        found.append((size + 2 * around - spread * (kernel - 1) - 1) // step + 1)
    return found


def _of_axis(numbers: list[int] | None, axis: int) -> int:
    """One number stands for all axes.

    Raises:
        ValueError: it was not told.
    """
    if not numbers:
        raise ValueError
    return numbers[axis] if len(numbers) > 1 else numbers[0]


def _numbers(text: str) -> list[int]:
    try:
        found = ast.literal_eval(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []
    return [one for one in found if isinstance(one, int)] if isinstance(found, list) else []


def _shapes(text: bytes) -> tuple[Shape, ...]:
    listed = _decoded(text)
    return tuple(
        tuple(one) if isinstance(one, list) and all(isinstance(size, int) and size >= 0 for size in one) else ()
        for one in listed
    )


def _texts(text: bytes) -> tuple[str, ...]:
    return tuple(one if isinstance(one, str) else "" for one in _decoded(text))


def _decoded(text: bytes) -> list[object]:
    try:
        found = _JSON.decode(text) if text else []
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return []
    return found if isinstance(found, list) else []
