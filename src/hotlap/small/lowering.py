"""A recorded torch.fx graph -> Program, operation by operation, with the shapes in hand.

A value has rows (the batch) and columns (the last dimension). A tensor with one dimension fewer than the input is one
column. What would line up rows with columns is refused.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import fx

from hotlap.small.program import Node, Op, Program, Unsupported

_BY_ROWS = "the forward calculates with the number of rows in the batch."

# Operations that may be handed the number of rows.
_TAKE_ROWS = ("view", "reshape", torch.reshape)

# What gives the tensor itself, or a view of it: to change that in place changes another tensor.
_VIEWS = (operator.getitem, torch.flatten, torch.reshape, torch.squeeze, torch.unsqueeze, torch.unbind, F.dropout)

INPLACE = {
    f"__{name}__": getattr(operator, name)
    for name in ("iadd", "isub", "imul", "itruediv", "ipow", "imatmul", "ifloordiv", "imod")
}
"""`x += y` and the like, which torch.fx takes for `x = x + y`."""


def is_inplace(name: str, settings: Mapping[str, Any]) -> bool:
    """Whether a function of torch's of this name, given these keywords, changes its first argument, or another."""
    named = (name.endswith("_") and not name.endswith("__")) or name in (*INPLACE, "__setitem__", "__set__")
    return bool(named or settings.get("inplace") or settings.get("out") is not None)


class Rows(int):
    """The number of rows, another in every batch: a forward may hand it on to `view`, not calculate with it."""


@dataclass(frozen=True, slots=True)
class Sym:
    """A tensor inside the program."""

    value: int
    shape: tuple[int, ...]
    single: bool = False
    """One row for the whole batch: the time, constants, and what follows from them."""
    constant: torch.Tensor | None = None
    """The tensor itself, where it is one of the module's own."""


def name_of(what: object) -> str:
    """What to call it in a message."""
    return getattr(what, "__name__", type(what).__name__)


class Recorded(NamedTuple):
    """The operations of a forward, and the tensors and layers that they name.

    Not a GraphModule, which would write and compile Python code that nobody runs: a fifth of what a first call takes.
    """

    graph: fx.Graph
    found: Mapping[str, Any]


class Lowering:
    """Translates one recorded graph."""

    def __init__(self, recorded: Recorded, program: Program, *, lead: tuple[int, ...]) -> None:
        self.graph, self.found = recorded
        self.program = program
        self.lead = lead
        self.known: dict[fx.Node, Any] = {}

    def run(self) -> Program:
        """All nodes in order; the program is complete afterwards."""
        used = self._used()
        for node in self.graph.nodes:
            if node.op == "output":
                self._finish(self._resolve(node.args[0]))
            elif node in used and node not in self.known:
                try:
                    self.known[node] = self._node(node)
                except Unsupported:
                    raise
                except Exception as error:  # arguments or shapes that the real operation might know
                    raise Unsupported(f"{node.format_node()} is not known like this: {error}") from error
        return self.program

    def _used(self) -> set[fx.Node]:
        """What the result is made of, and what changes a tensor in place: layers beside that train nothing."""
        left = [node for node in self.graph.nodes if node.op == "output" or self._is_inplace(node)]
        used: set[fx.Node] = set()
        while left:
            node = left.pop()
            if node not in used:
                used.add(node)
                left += node.all_input_nodes
        return used

    def _is_inplace(self, node: fx.Node) -> bool:
        name = str(node.target) if node.op == "call_method" else name_of(node.target)
        flagged = node.target in INPLACE.values() or any(argument is True for argument in node.args[1:])
        return flagged or is_inplace(name, node.kwargs)

    def _check_inplace(self, node: fx.Node) -> None:
        """What is changed is a result of its own that nobody else reads."""
        changed = node.args[0] if node.args and self._is_inplace(node) else None
        if not isinstance(changed, fx.Node):
            return
        is_new = changed.op == "call_function" and changed.target not in _VIEWS
        if not is_new or len(changed.users) > 1:
            raise Unsupported(f"{node.format_node()} changes a tensor in place that is used again, or a view of one.")

    def _finish(self, result: Any) -> None:
        if not isinstance(result, Sym):
            raise Unsupported(f"the forward returns a {type(result).__name__}; one tensor is expected.")
        if result.single and not self.program.values[self.program.input][1]:
            raise Unsupported("the forward returns the same for every sample.")
        self.program.output = result.value
        self.program.output_squeezed = len(result.shape) == len(self.lead)
        if result.shape not in (self.lead, (*self.lead, self.cols(result))):
            raise Unsupported(f"the forward returns the shape {result.shape}.")
        if result.value == self.program.input:  # the loss and the solver need a value of its own
            cols = self.program.values[result.value][0]
            self.program.output = self.program.emit(Op.AFFINE, cols=cols, a=result.value, f0=1.0)

    def _resolve(self, argument: Any) -> Any:
        return fx.node.map_arg(argument, lambda node: self.known[node])

    def _node(self, node: fx.Node) -> Any:
        from hotlap.small import operations as tables  # it names the methods below

        args, kwargs = self._resolve(node.args), self._resolve(node.kwargs)
        self._check_arguments(node, flattened(args, kwargs))
        self._check_inplace(node)
        if node.op == "get_attr":
            return self._constant(self.found[str(node.target)], str(node.target))
        if node.op == "call_module":
            raise Unsupported(f"the layer {type(self.found[str(node.target)]).__name__} is not known.")
        handler = (
            tables.METHODS.get(str(node.target)) if node.op == "call_method" else tables.FUNCTIONS.get(node.target)
        )
        if not any(isinstance(a, Sym) for a in flattened(args, kwargs)):
            return self._plain(node, args, kwargs)
        if handler is None:
            raise Unsupported(
                f"the operation {name_of(node.target) if callable(node.target) else node.target} is not known."
            )
        return handler(self, *args, **kwargs)

    def _check_arguments(self, node: fx.Node, flat: list[Any]) -> None:
        if any(self._is_folded(a) for a in flat) and not self._unfolds(node):
            raise Unsupported(f"{node.format_node()} works on samples of several dimensions before they are flattened.")
        calculates = any(isinstance(a, Sym) for a in flat) and any(isinstance(a, Rows) for a in flat)
        if calculates and node.target not in _TAKE_ROWS:
            raise Unsupported(_BY_ROWS)

    def _is_folded(self, argument: Any) -> bool:
        """The input, whose samples have several dimensions still."""
        is_input = isinstance(argument, Sym) and argument.value == self.program.input
        return is_input and len(argument.shape) > len(self.lead) + 1

    def _unfolds(self, node: fx.Node) -> bool:
        """It makes rows of samples, or asks for their shape."""
        if node.op == "call_method":
            return str(node.target) in ("flatten", "view", "reshape", "size", "dim")
        return node.op == "call_function" and node.target in (torch.flatten, torch.reshape, getattr)

    def _plain(self, node: fx.Node, args: Any, kwargs: Any) -> Any:
        """An operation on numbers, shapes and the like, done at once."""
        if node.target is operator.getitem and isinstance(args[0], tuple):
            return args[0][args[1]]  # one number of a shape, the rows' perhaps
        if any(isinstance(a, Rows) for a in flattened(args, kwargs)):
            raise Unsupported(_BY_ROWS)
        if node.op == "call_function":
            return cast(Callable[..., Any], node.target)(*args, **kwargs)
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)

    def _constant(self, tensor: Any, name: str) -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        try:
            _ = tensor._version
        except RuntimeError:
            raise Unsupported(f"{name} was made in inference mode: that it changes would not be noticed.") from None
        return Sym(-1, tuple(tensor.shape), True, tensor)

    def tensor(self, s: Any) -> Sym:
        """An operand of an elementwise operation, with its value in the program."""
        if s.constant is None or s.value >= 0:
            return cast(Sym, s)
        tensor = s.constant
        if tensor.dim() > 1 and tensor.numel() != tensor.shape[-1]:
            raise Unsupported(f"a constant of shape {tuple(tensor.shape)} takes part in elementwise arithmetic.")
        if tensor.dtype != self.program.dtype and not tensor.requires_grad:
            if tensor.is_complex() or (tensor.is_floating_point() and tensor.dim()):
                raise Unsupported(f"a constant is {tensor.dtype}, which torch would calculate in.")
            tensor = tensor.detach().to(self.program.dtype)
        number = self.program.parameter(tensor, "a constant of the forward")
        value = self.program.emit(Op.PARAMETER, cols=max(1, tensor.numel()), single=True, weight=number)
        return Sym(value, tuple(tensor.shape), True)

    def cols(self, s: Sym) -> int:
        """Its number of columns."""
        return self.program.values[s.value][0]

    def shape(self, s: Sym) -> tuple[int, ...]:
        """Its shape for the forward to read: the number of rows is marked as such."""
        lead = len(self.lead)
        return s.shape if s.single or s.shape[:lead] != self.lead else (*self.lead, *s.shape[lead:])

    def unary(self, op: Op, s: Any, **fields: Any) -> Sym:
        """An elementwise function of one tensor."""
        s = self.tensor(s)
        return Sym(self.program.emit(op, cols=self.cols(s), single=s.single, a=s.value, **fields), s.shape, s.single)

    def binary(self, op: Op, a: Any, b: Any) -> Sym:
        """Elementwise arithmetic of two tensors, or of a tensor and a number."""
        if not isinstance(a, Sym) or not isinstance(b, Sym):
            return self._with_number(op, a, b)
        a, b = self.tensor(a), self.tensor(b)
        shape = self._broadcast(a, b)
        single = a.single and b.single
        cols = max(self.cols(a), self.cols(b))
        return Sym(self.program.emit(op, cols=cols, single=single, a=a.value, b=b.value), shape, single)

    def _with_number(self, op: Op, a: Any, b: Any) -> Sym:
        number = a if not isinstance(a, Sym) else b
        if not isinstance(number, int | float) or isinstance(number, bool | Rows):
            raise Unsupported(f"arithmetic with {number!r} is not known.")
        c = float(number)
        if isinstance(a, Sym):
            scale, shift = {Op.ADD: (1.0, c), Op.SUB: (1.0, -c), Op.MUL: (c, 0.0), Op.DIV: (1.0, 0.0)}[op]
            if op is Op.DIV:
                return self.binary(Op.DIV, a, self._number(c))
            return self.unary(Op.AFFINE, a, f0=scale, f1=shift)
        if op is Op.DIV:
            return self.unary(Op.AFFINE, self.unary(Op.POWER, b, f0=-1.0), f0=c)
        scale, shift = {Op.ADD: (1.0, c), Op.SUB: (-1.0, c), Op.MUL: (c, 0.0)}[op]
        return self.unary(Op.AFFINE, b, f0=scale, f1=shift)

    def _number(self, c: float) -> Sym:
        return self.tensor(Sym(-1, (), True, torch.tensor(c, dtype=self.program.dtype, device="cpu")))

    def _broadcast(self, a: Sym, b: Sym) -> tuple[int, ...]:
        """The shape of the result; Unsupported where torch would line up rows with columns."""
        try:
            shape = tuple(torch.broadcast_shapes(a.shape, b.shape))  # type: ignore[no-untyped-call]
        except RuntimeError:
            raise Unsupported(
                f"shapes {a.shape} and {b.shape} are broadcast across the batch, or not at all."
            ) from None
        for s in (a, b):
            column = not s.single and len(s.shape) < len(shape) and len(s.shape) == len(self.lead) and self.lead
            if column or (s.single and len(shape) == len(self.lead) and self.lead and self.cols(s) > 1):
                raise Unsupported(f"shapes {a.shape} and {b.shape} are broadcast across the batch.")
        return shape

    def linear(self, s: Sym, weight: Any, bias: Any = None) -> Sym:
        """x W^T + b with torch's W (out, in)."""
        weight, bias = (w.constant if isinstance(w, Sym) else w for w in (weight, bias))
        if weight is None or weight.dim() != 2 or s.constant is not None or s.single:
            raise Unsupported("a linear layer takes a weight of two dimensions that is not computed, and no constant.")
        if bias is not None and bias.shape != weight.shape[:1]:
            raise Unsupported(f"a bias of shape {tuple(bias.shape)} is not one number for each output.")
        if not s.shape or s.shape[-1] != weight.shape[1] or (len(s.shape) == len(self.lead) and self.lead):
            raise Unsupported(f"a linear layer takes {weight.shape[1]} features, but the shape {s.shape} comes in.")
        w = self.program.parameter(weight, "a weight")
        b = -1 if bias is None else self.program.parameter(bias, "a bias")
        value = self.program.emit(Op.LINEAR, cols=weight.shape[0], a=s.value, weight=w, bias=b)
        return Sym(value, (*s.shape[:-1], weight.shape[0]))

    def matmul(self, a: Any, b: Any) -> Sym:
        """y @ A for a constant A (in, out)."""
        if not (isinstance(a, Sym) and isinstance(b, Sym)) or b.constant is None or b.constant.dim() != 2:
            raise Unsupported("a product of tensors is known as state @ constant matrix only.")
        if b.constant.requires_grad:
            raise Unsupported("y @ A with a trained A is not known; write it as nn.Linear.")
        return self.linear(a, b.constant.detach().T.contiguous())

    def dropout(self, s: Sym, p: float = 0.5, training: bool = True, inplace: bool = False) -> Sym:
        """Nothing at all outside of training."""
        if training and p > 0:
            raise Unsupported("a dropout that is on draws numbers of torch's; .eval() turns it off.")
        return s

    def power(self, s: Any, exponent: Any) -> Sym:
        """A tensor to the power of a number."""
        if not isinstance(s, Sym) or not isinstance(exponent, int | float):
            raise Unsupported("a power is known with a tensor below and a plain number above only.")
        return self.unary(Op.POWER, s, f0=float(exponent))

    def getitem(self, s: Any, index: Any) -> Any:
        """The same columns of all rows: y[..., i], y[:, i:j], and y[i] of a state of one dimension."""
        if not isinstance(s, Sym):
            return s[index]
        s = self.tensor(s)
        numbers = torch.arange(prod(s.shape), device="cpu").reshape(s.shape)
        picked = numbers[index]
        if s.single and picked.numel() == numbers.numel():
            return self.reshape(s, tuple(picked.shape))
        count = 1 if picked.shape == self.lead else picked.shape[-1] if picked.dim() else 0
        shape = self.lead if picked.shape == self.lead else (*self.lead, count)
        if s.single or not picked.numel() or picked.shape != shape:
            raise Unsupported(f"the index {index} of a shape {s.shape} is not known.")
        first = int(picked.flatten()[0])
        if not torch.equal(picked.reshape(-1, count), numbers.reshape(-1, self.cols(s))[:, first : first + count]):
            raise Unsupported(f"the index {index} of a shape {s.shape} is not known.")
        return Sym(s.value, shape) if count == self.cols(s) else self._columns(s, first, count, shape)

    def _columns(self, s: Sym, first: int, count: int, shape: tuple[int, ...]) -> Sym:
        return Sym(self.program.emit(Op.PLACE, cols=count, a=s.value, begin=first), shape)

    def reshape(self, s: Sym, shape: tuple[int, ...]) -> Sym:
        """Only changes that leave rows and columns as they are."""
        lead = () if s.single else self.lead
        same = shape[:-1] == lead and shape[-1:] == (self.cols(s),)
        if shape == s.shape or same or (self.cols(s) == 1 and shape == lead):
            return Sym(s.value, shape, s.single)
        raise Unsupported(f"a change of shape from {s.shape} to {shape} is not known.")

    def concatenate(self, tensors: Any, dim: int = 0, *, stack: bool = False) -> Sym:
        """cat or stack along the last dimension."""
        parts = [self.tensor(t) if isinstance(t, Sym) else self._number(float(t)) for t in tensors]
        dims = len(self.lead) + 1
        if dim not in (-1, dims - 1) or any((len(p.shape) == dims) == stack and not p.single for p in parts):
            raise Unsupported("cat and stack are known along the last dimension of the state only.")
        single = all(p.single for p in parts)
        total = sum(self.cols(p) for p in parts)
        out = self.program.value(total, single=single)
        at = 0
        for part in parts:
            self.program.nodes.append(Node(op=Op.PLACE, a=part.value, out=out, to=at))
            at += self.cols(part)
        return Sym(out, (total,) if single else (*self.lead, total), single)

    def unbind(self, s: Sym, dim: int = 0) -> tuple[Sym, ...]:
        """The columns, each as a tensor without a last dimension."""
        if dim not in (-1, len(s.shape) - 1) or len(s.shape) != len(self.lead) + 1:
            raise Unsupported("unbind is known along the last dimension only.")
        return tuple(self._columns(s, i, 1, s.shape[:-1]) for i in range(self.cols(s)))


def flattened(args: Any, kwargs: Mapping[str, Any]) -> list[Any]:
    """All arguments, those in a list or tuple one by one."""
    flat: list[Any] = []
    for a in [*args, *kwargs.values()]:
        flat.extend(a if isinstance(a, tuple | list) else [a])
    return flat
