"""A model's forward and backward natively, inside torch's autograd: `model(x)` for whatever loss comes after it."""

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from hotlap.small import guards
from hotlap.small.node import Lease, direct, is_wrapped
from hotlap.small.program import Op, Program, Unsupported, native
from hotlap.small.trace import trace_model, why_no_rows

Eager = Callable[[nn.Module, torch.Tensor], torch.Tensor]


class Network:
    """One model, traced; native passes over it, one for each result that may still be asked for its gradient.

    It does not keep the model alive: whoever has it drops it with the model.

    Args:
        model: as for `compile_step`.
        eager: `eager(model, x)` is the same forward in torch, where a second derivative is wanted.
    """

    def __init__(self, model: nn.Module, eager: Eager) -> None:
        self.program, guard = guards.traced(model, lambda: trace_model(model))
        self.holds: Callable[[], bool] = guard.holds
        """Whether the model is still what was traced."""
        if sum(node.op is Op.LINEAR for node in self.program.nodes) < 2:
            raise Unsupported("one layer alone is as fast in torch.")
        self._native = native(self.program.dtype)
        self.eager = eager
        self._model = weakref.ref(model)
        self.trained = self.program.trained
        self.features = self.program.values[self.program.input][0]
        self.outputs = self.program.values[self.program.output][0]
        parameters = guards.new()
        for p in self.trained:
            for name, value in (("is_leaf", True), ("requires_grad", True), ("grad", None)):
                parameters.attribute(p, name, value)
            guards.watch_hooks(parameters, p)
        self.takes_gradients: Callable[[], bool] = parameters.holds
        """Whether a gradient that is put into `.grad` is all that torch would do with it."""
        self.memory = guards.memory(self.program.parameters)
        self.read = {wanted: _read_on_the_way_back(self.program, wanted) for wanted in (False, True)}
        """Does the batch want a gradient? -> numbers of parameters that must not change before the backward pass."""
        self._free: dict[bool, list[Any]] = {False: [], True: []}

    @property
    def model(self) -> nn.Module:
        """What was traced; asked while it is being called."""
        model = self._model()
        if model is None:
            raise ReferenceError("the model of these native passes is gone.")
        return model

    def takes(self, x: torch.Tensor) -> bool:
        """Whether `x` is a batch as it was traced for. Of samples with several dimensions that is looked at once."""
        if x.dtype is not self.program.dtype or not x.is_cpu or x.layout is not torch.strided:
            return False
        if x.numel() == 0 or x.is_inference():  # the latter does not say when it is changed
            return False
        if x.dim() == 2:
            return x.shape[1] == self.features
        return x.dim() > 2 and not why_no_rows(self.program, self.model, tuple(x.shape[1:]))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The model's result, with its gradient; no transform of functorch is at work."""
        apply = _apply_directly if not is_wrapped(x) else Pass.apply
        out: torch.Tensor = apply(self, x, *self.trained)
        return out

    def lease(self, input_gradient: bool) -> Lease:
        """A native pass that nobody uses."""
        return Lease(self._free[input_gradient], lambda: self._native.Net(self.program.description(), input_gradient))


def _read_on_the_way_back(program: Program, input_gradient: bool) -> list[int]:
    """torch saves a weight only if something before it wants a gradient; the same here, biases never."""
    wanted = {program.input} if input_gradient else set()
    read = []
    for node in program.nodes:
        through = node.a in wanted or node.b in wanted
        numbers = [n for n in (node.weight, node.bias) if n >= 0]
        if numbers and through:
            read.append(node.weight)
        if through or any(program.parameters[n].requires_grad for n in numbers):
            wanted.add(node.out)
    return read


class Pass(torch.autograd.Function):
    """One native forward and its backward."""

    @staticmethod
    def forward(ctx: Any, network: Network, x: torch.Tensor, *_trained: Any) -> Any:
        """The model's result."""
        wanted = ctx.needs_input_grad[1]
        dense = x if x.is_contiguous() else x.contiguous()
        rows = dense.shape[0]
        lease = network.lease(wanted)
        out = dense.new_empty(rows, network.outputs)
        lease.native.forward(dense.data_ptr(), rows, out.data_ptr())
        ctx.network, ctx.lease, ctx.x, ctx.dense = network, lease, x, dense
        ctx.model = network.model  # for a second derivative, which may be asked for when nobody else has it any more
        ctx.place = dense.data_ptr()
        ctx.versions = [dense._version, *[p._version for p in network.program.parameters]]
        return out.view(rows) if network.program.output_squeezed else out

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """Of what forward() was given: nothing for the network, then for `x` and each parameter that is trained."""
        # create_graph=True: a second derivative is to come
        return None, *(_in_torch if torch.is_grad_enabled() else gradients)(ctx, gradient)


_apply_directly = direct(Pass)


def gradients(ctx: Any, gradient: torch.Tensor) -> list[torch.Tensor | None]:
    """Of the batch, None where nobody wants it, and of each parameter that is trained."""
    network, dense = ctx.network, ctx.dense
    _check_unchanged(ctx, network.read[ctx.needs_input_grad[1]])
    gradient = gradient.contiguous()
    to_x = torch.empty_like(dense) if ctx.needs_input_grad[1] else None
    to = 0 if to_x is None else to_x.data_ptr()
    return [to_x, *ctx.lease.native.backward(gradient.data_ptr(), to, network.trained)]


def _check_unchanged(ctx: Any, read: Iterable[int]) -> None:
    """Of the batch, and of the parameters with these numbers."""
    of_batch, *versions = ctx.versions
    parameters = ctx.network.program.parameters
    is_there = ctx.place == ctx.dense.data_ptr() and ctx.network.memory.holds()
    if not is_there or of_batch != ctx.dense._version or any(versions[n] != parameters[n]._version for n in read):
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation, or given "
            "other memory (the batch, or a parameter of the model)."
        )


def _in_torch(ctx: Any, gradient: torch.Tensor) -> list[torch.Tensor | None]:
    """The same by torch's own operators, so that they can be differentiated again."""
    _check_unchanged(ctx, range(len(ctx.network.program.parameters)))  # for they are read again
    inputs = [ctx.x, *ctx.network.trained]
    wanted = [tensor for tensor, needed in zip(inputs, ctx.needs_input_grad[1:], strict=True) if needed]
    out = ctx.network.eager(ctx.model, ctx.x)
    found = iter(torch.autograd.grad(out, wanted, gradient, create_graph=True, allow_unused=True))
    return [next(found) if needed else None for needed in ctx.needs_input_grad[1:]]
