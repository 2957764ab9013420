"""Expressions of the user's source -> their values in a frame, where working them out cannot do anything.

These are names, attributes that lie in an object's own dictionary, numbers and arithmetic on them, `len` and `range` of
such, and lengths of tensors. Whatever else an expression needs is not known.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from torch.utils.data import DataLoader

# Wrappers that show how far the loop is.
PROGRESS_BARS = frozenset({"tqdm", "tqdm_notebook", "track"})
_ARITHMETIC: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
_OF_NUMBERS = (int, min, max, math.ceil, math.floor)
_CONTAINERS = frozenset({list, tuple, dict, range})
_ARRAYS = frozenset({"torch.Tensor", "torch.nn.parameter.Parameter", "numpy.ndarray"})


class Unknown(Exception):  # noqa: N818 - no error: the answer is that it cannot be told
    """The source does not say."""


def number_of(expression: ast.expr, frame: FrameType) -> int:
    """A whole number.

    Raises:
        Unknown: it is none, or is not known (whatever the script's objects raise is as good).
    """
    value = _real(expression, frame)
    if value != int(value):
        raise Unknown
    return int(value)


def _real(expression: ast.expr, frame: FrameType) -> float:
    value = value_of(expression, frame)
    if not isinstance(value, int | float):
        raise Unknown
    return value


def value_of(expression: ast.expr, frame: FrameType) -> Any:
    """Of any type; raises as `number_of`."""
    value: Any
    match expression:
        case ast.Constant():
            value = expression.value
        case ast.Name(id=name):
            value = next(scope[name] for scope in (frame.f_locals, frame.f_globals, frame.f_builtins) if name in scope)
        case ast.Attribute(value=owner, attr="shape") if _is_array(array := value_of(owner, frame)):
            value = tuple(array.shape)
        case ast.Attribute(value=owner, attr=name):
            value = vars(value_of(owner, frame))[name]
        case ast.Subscript(value=owner, slice=key) if not _is_array(container := sized(owner, frame)):
            value = container[value_of(key, frame)]
        case _:
            value = _computed(expression, frame)
    return value


def _computed(expression: ast.expr, frame: FrameType) -> float:
    match expression:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_real(operand, frame)
        case ast.BinOp():
            return _ARITHMETIC[type(expression.op)](_real(expression.left, frame), _real(expression.right, frame))
        case ast.Call(func=ast.Name(id="len"), args=[argument]):
            return len(sized(argument, frame))
        case ast.Call(func=ast.Attribute(value=owner, attr="size"), args=[axis]):
            return shape_of(owner, frame)[number_of(axis, frame)]
        case ast.Call(args=arguments) if (function := value_of(expression.func, frame)) in _OF_NUMBERS:
            return float(function(*(_real(argument, frame) for argument in arguments)))
    raise Unknown


def sized(expression: ast.expr, frame: FrameType) -> Any:
    """A loader, an array or a container of Python's own, be it under a progress bar: asking those for their length or
    an item runs nothing of the script's but a sampler's length."""
    value = value_of(expression, frame)
    if type(value).__name__ in PROGRESS_BARS:
        value = vars(value)["iterable"]
    if type(value) not in _CONTAINERS and not isinstance(value, DataLoader) and not _is_array(value):
        raise Unknown
    return value


def shape_of(expression: ast.expr, frame: FrameType) -> tuple[int, ...]:
    """Of a tensor or an array; raises as `number_of`."""
    value = value_of(expression, frame)
    if not _is_array(value):
        raise Unknown
    return tuple(value.shape)


def _is_array(value: object) -> bool:
    return f"{type(value).__module__}.{type(value).__qualname__}" in _ARRAYS
