"""The program of a small network as data: what the tracer makes and the native core runs."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import torch

from hotlap.errors import UserError
from hotlap.native import core


class Unsupported(UserError):  # noqa: N818 - reads as the sentence "this is unsupported"
    """A model, loss or optimizer that the native core does not know; the message names it."""


NUMBERS = {torch.float32: "float32", torch.float64: "float64"}
"""What the native core calculates with."""


def native(dtype: torch.dtype) -> Any:
    """The native classes for numbers of this type; Unsupported says why there are none."""
    if core().module is None:
        raise Unsupported(core().why_not)
    if dtype not in NUMBERS:
        raise Unsupported(f"numbers of {dtype} are not known; float32 and float64 are.")
    return getattr(core().module, NUMBERS[dtype])


class Op(IntEnum):
    """What a node does. The numbers are shared with native/small/program.hpp."""

    LINEAR = 0
    PARAMETER = 3
    TANH = 10
    RELU = 11
    LEAKY_RELU = 12
    SIGMOID = 13
    SILU = 16
    SOFTPLUS = 17
    SIN = 20
    COS = 21
    EXP = 22
    LOG = 23
    SQRT = 24
    ABS = 25
    AFFINE = 26
    POWER = 27
    ADD = 40
    SUB = 41
    MUL = 42
    DIV = 43
    PLACE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One operation; operands and results are numbers of values, weights numbers of parameters, -1 is none."""

    op: Op
    a: int = -1
    b: int = -1
    out: int = -1
    weight: int = -1
    bias: int = -1
    begin: int = 0
    to: int = 0
    f0: float = 0.0
    f1: float = 0.0


@dataclass(slots=True)
class Program:
    """Values (R rows of so many columns), nodes in order, and the tensors they read."""

    dtype: torch.dtype
    values: list[tuple[int, bool]] = field(default_factory=list)
    """(columns, whether one row stands for all of the batch)."""
    nodes: list[Node] = field(default_factory=list)
    parameters: list[torch.Tensor] = field(default_factory=list)
    """The user's own tensors, and constants of ours; read at every call."""
    input: int = -1
    time: int = -1
    output: int = -1
    output_squeezed: bool = False
    """Whether the model's result has no column dimension: (R,) instead of (R, 1)."""
    samples: dict[tuple[int, ...], str] = field(default_factory=dict)
    """Shapes of samples that were looked at -> why they are no rows of the input."""

    def value(self, cols: int, *, single: bool = False) -> int:
        """The number of a new value."""
        self.values.append((cols, single))
        return len(self.values) - 1

    def emit(self, op: Op, *, cols: int, single: bool = False, **fields: Any) -> int:
        """Add a node with a new value as its result; its number is returned."""
        out = self.value(cols, single=single)
        self.nodes.append(Node(op=op, out=out, **fields))
        return out

    def parameter(self, tensor: torch.Tensor, what: str) -> int:
        """The number of a tensor that the program reads, once for each tensor."""
        for number, known in enumerate(self.parameters):
            if known is tensor:
                return number
        if tensor.dtype != self.dtype:
            raise Unsupported(f"{what} is {tensor.dtype}, but the model's input is taken to be {self.dtype}.")
        if tensor.device.type != "cpu":
            raise Unsupported(f"{what} is on {tensor.device}; the native core works on the CPU.")
        if not tensor.is_contiguous():
            raise Unsupported(f"{what} is not contiguous (strides {tuple(tensor.stride())}).")
        self.parameters.append(tensor)
        return len(self.parameters) - 1

    @property
    def trained(self) -> list[torch.Tensor]:
        """The parameters that get a gradient, in their order."""
        return [p for p in self.parameters if p.requires_grad]

    def description(self) -> tuple[Any, ...]:
        """What the native classes are made from."""
        nodes = [(int(n.op), n.a, n.b, n.out, n.weight, n.bias, n.begin, n.to, n.f0, n.f1) for n in self.nodes]
        parameters = [(p.numel(), p.data_ptr(), p.requires_grad) for p in self.parameters]
        return self.values, nodes, parameters, (self.input, self.time, self.output)
