"""torch's functions and methods, each with its translation: the tables that `lowering` looks things up in."""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from hotlap.small.lowering import Lowering, Sym
from hotlap.small.program import Op, Unsupported


def _shape_of(low: Lowering, s: Sym, dim: int | None = None) -> Any:
    return low.shape(s) if dim is None else low.shape(s)[dim]


def _attribute_of(low: Lowering, s: Sym, name: str) -> Any:
    if name == "shape":
        return low.shape(s)
    if name == "ndim":
        return len(s.shape)
    raise Unsupported(f"the attribute .{name} of a tensor is not known.")


def _reshaped(name: str) -> Callable[..., Sym]:
    """One of torch's functions that change a shape alone."""

    def function(low: Lowering, s: Sym, *args: Any, **kwargs: Any) -> Sym:
        return low.reshape(s, tuple(getattr(torch.empty(s.shape, device="meta"), name)(*args, **kwargs).shape))

    return function


def _squeeze(low: Lowering, s: Sym, dim: int | None = None) -> Sym:
    if dim not in (-1, len(s.shape) - 1):
        raise Unsupported("squeeze is known for the last dimension only; name it.")
    return _reshaped("squeeze")(low, s, dim)


def _unary(op: Op) -> Callable[..., Sym]:
    def function(low: Lowering, s: Any, inplace: bool = False) -> Sym:
        return low.unary(op, s)

    return function


def _leaky(low: Lowering, s: Any, negative_slope: float = 0.01, inplace: bool = False) -> Sym:
    return low.unary(Op.LEAKY_RELU, s, f0=float(negative_slope))


def _softplus(low: Lowering, s: Any, beta: float = 1.0, threshold: float = 20.0) -> Sym:
    return low.unary(Op.SOFTPLUS, s, f0=float(beta), f1=float(threshold))


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": lambda low, a, b: low.binary(Op.ADD, a, b),
    "sub": lambda low, a, b: low.binary(Op.SUB, a, b),
    "mul": lambda low, a, b: low.binary(Op.MUL, a, b),
    "div": lambda low, a, b: low.binary(Op.DIV, a, b),
    "truediv": lambda low, a, b: low.binary(Op.DIV, a, b),
    "pow": Lowering.power,
    "matmul": Lowering.matmul,
    "mm": Lowering.matmul,
    "neg": lambda low, s: low.unary(Op.AFFINE, s, f0=-1.0),
    "getitem": Lowering.getitem,
}

_SHARED: dict[str, Callable[..., Any]] = {
    **{name: handler for name, handler in _ARITHMETIC.items() if name not in ("truediv", "getitem")},
    **{
        name: _unary(op)
        for name, op in {
            "tanh": Op.TANH, "sigmoid": Op.SIGMOID, "sin": Op.SIN, "cos": Op.COS, "exp": Op.EXP, "log": Op.LOG,
            "sqrt": Op.SQRT, "abs": Op.ABS, "relu": Op.RELU, "relu_": Op.RELU, "tanh_": Op.TANH, "sigmoid_": Op.SIGMOID,
        }.items()
    },
    "square": lambda low, s: low.unary(Op.POWER, s, f0=2.0),
    "reciprocal": lambda low, s: low.unary(Op.POWER, s, f0=-1.0),
    "flatten": _reshaped("flatten"),
    "reshape": _reshaped("reshape"),
    "unsqueeze": _reshaped("unsqueeze"),
    "squeeze": _squeeze,
    "unbind": Lowering.unbind,
}  # fmt: skip

METHODS: dict[str, Callable[..., Any]] = {
    **_SHARED,
    "view": _reshaped("reshape"),
    "size": _shape_of,
    "dim": lambda low, s: len(s.shape),
    "contiguous": lambda low, s, *_: s,
}

FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{getattr(torch, name): handler for name, handler in _SHARED.items() if hasattr(torch, name)},
    **{getattr(operator, name): handler for name, handler in _ARITHMETIC.items() if hasattr(operator, name)},
    **{getattr(operator, f"i{name}"): _ARITHMETIC[name] for name in ("add", "sub", "mul", "truediv", "pow")},
    getattr: _attribute_of,
    torch.cat: Lowering.concatenate,
    torch.concat: Lowering.concatenate,
    torch.stack: partial(Lowering.concatenate, stack=True),
    F.relu: _unary(Op.RELU),
    F.tanh: _unary(Op.TANH),
    F.sigmoid: _unary(Op.SIGMOID),
    F.leaky_relu: _leaky,
    F.silu: _unary(Op.SILU),
    F.softplus: _softplus,
    F.dropout: Lowering.dropout,
    F.linear: Lowering.linear,
}
