"""A training step that runs -> its operators. Lives in the process that trains; works on any device, "meta" too.

A `TorchDispatchMode` sees each aten operator below autograd and autocast: what a GPU would be given. Operators that
lower differently there are mapped: attention is one fused kernel also with dropout, recurrent layers are one kernel a
time step, parameter updates run as multi-tensor kernels, views cost nothing.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from time import perf_counter
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from hotlap.predict.precision import BY_DTYPE, Precision
from hotlap.predict.workload import Kind, Operator, Workload
from hotlap.record import Phase

# Tensors that one multi-tensor (foreach) kernel handles: the argument block of a launch holds about this many
# (aten/src/ATen/native/cuda/MultiTensorApply.cuh: 110 to 30 by depth).
TENSORS_A_KERNEL = 40
# Of the host's time for an operator: what calling one takes at most in a library's Python (torchdiffeq's solvers).
CALLING = 3.0
# Make room, or are views that their schema does not call so.
_NO_KERNEL = frozenset([
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "record_stream", "_unsafe_view",
    "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk",
])  # fmt: skip
# By aten's names; all else runs on lanes.
_KINDS = {
    Kind.MATMUL: r"attention|rnn|lstm|gru|mm$|mv$|^(dot|linear|matmul)$",
    Kind.CONV: r"(?<!depthwise_)conv(?!ert|_depthwise)",
}
_COPIES = frozenset({"_to_copy", "copy_"})
# Layers that run as one operator over all time steps; where its weights are among its arguments.
_RECURRENT: Mapping[str, int | slice] = {"mkldnn_rnn_layer": slice(1, 3), "_cudnn_rnn": 1, "miopen_rnn": 1}
# What was there is not read.
_WRITES_OVER = frozenset({"zero_", "fill_", "copy_"})
# Read only where an index points: what is written stands for what is read.
_SPARSE_READS = frozenset({"embedding", "index", "index_select", "gather", "take"})


@cache
def kind_of(name: str, *, grouped: bool = False) -> Kind:
    """aten's name without prefix, "addmm" -> what it does; `grouped`: a convolution of few channels a group."""
    kind = next((kind for kind, pattern in _KINDS.items() if re.search(pattern, name)), Kind.VECTOR)
    return Kind.VECTOR if kind is Kind.CONV and grouped else kind


def is_view(func: Any) -> bool:
    """It returns a part of what it is given, and neither reads nor writes values: `view`, `t`, `detach`.

    Higher-order operators (cond, flex_attention) have no schema, and are none.
    """
    schema = getattr(func, "_schema", None)
    returned = [value.alias_info for value in schema.returns] if schema is not None else []
    return bool(returned) and all(alias is not None and not alias.is_write for alias in returned)


def is_free(func: Any, name: str, outputs: list[torch.Tensor]) -> bool:
    """No kernel runs: it makes room or an alias, changes strides alone, or asks something."""
    asks = not outputs and not func._schema.is_mutable
    return is_view(func) or asks or name in _NO_KERNEL or torch.Tag.inplace_view in func.tags


def bytes_of(tensors: Iterable[torch.Tensor]) -> float:
    """Memory that a kernel touches; a broadcast (stride 0) dimension is read from the cache."""
    total = 0
    for tensor in tensors:
        if tensor.layout is torch.strided:
            spread = (
                size if stride else min(size, 1) for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
            )
            total += math.prod(spread) * tensor.element_size()
        elif tensor.is_sparse:
            total += tensor._nnz() * tensor.element_size()
    return float(total)


def _kernels(name: str, args: tuple[Any, ...]) -> int:
    """Kernels of one operator: a convolution's backward makes gradients of input, weight and bias apart, and recurrent
    layers take their time steps one after the other."""
    if name == "convolution_backward":
        return max(1, sum(bool(wanted) for wanted in args[-1]))
    if name.removesuffix("_backward") in _RECURRENT:
        # Two matrices a layer and direction; the directions run side by side.
        layers = max(1, len(_recurrent_weights(name, args)) // 2)
        return int(args[0].shape[0]) * layers
    return 1


def _recurrent_weights(name: str, args: tuple[Any, ...]) -> list[torch.Tensor]:
    """The matrices of a fused recurrent layer."""
    where = _RECURRENT[name.removesuffix("_backward")]
    return [weight for weight in tree_leaves(args[where]) if weight.dim() == 2]


class Tracer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts each operator with what it moves and computes, from `start` to `stop`.

    Arguments:
        parameters: that are trained: no activations, and their gradients are what GPUs exchange. Without any (a
            script that updates by hand), they are the leaves of the graph that want a gradient.
        is_outside: whether an operator of now is in no pass, batch or update of the script.
    """

    def __init__(self, parameters: Iterable[torch.Tensor] = (), *, is_outside: Callable[[], bool] = bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._trained = [parameter for parameter in parameters if parameter.requires_grad]
        self._is_outside = is_outside
        self._open = ExitStack()
        self._in_optimizer = False
        self._aside = False
        self._counts: dict[Operator, int] = {}
        self._batch_bytes = 0.0
        # Storage -> bytes that the forward pass keeps for the backward pass.
        self._saved: dict[int, int] = {}
        # Storage -> a tensor that wants a gradient and was not computed: a parameter.
        self._leaves: dict[int, torch.Tensor] = {}
        # Operators outside of passes, batches and updates, and their seconds.
        self._num_outside = 0
        self._outside_s = 0.0
        # Why not all was seen. (The script's step goes on.)
        self._failed: Exception | None = None

    def start(self) -> None:
        """Begin."""
        self._open.callback(register_optimizer_step_pre_hook(lambda *_: self._updating(is_so=True)).remove)
        self._open.callback(register_optimizer_step_post_hook(lambda *_: self._updating(is_so=False)).remove)
        self._open.enter_context(torch.autograd.graph.saved_tensors_hooks(self._keep, lambda tensor: tensor))
        self._open.enter_context(_AsOnGpu())
        self._open.enter_context(self)

    def stop(self) -> None:
        """End."""
        self._open.close()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What runs inside is no work of the device: loading and collating a batch."""
        before, self._aside = self._aside, True
        try:
            yield
        finally:
            self._aside = before

    def outside_s(self, *, host_s: float) -> float:
        """Seconds of the operators that were outside, with calling them. `host_s`: for calling one in a plain loop."""
        return self._outside_s + CALLING * host_s * self._num_outside

    def workload(self, *, batch_bytes: float = 0.0) -> Workload:
        """What was done. `batch_bytes`: that would travel from the host, besides copies that were seen.

        Raises what made it miss an operator.
        """
        if self._failed is not None:
            raise self._failed
        operators = tuple(_mapped(self._counts))
        trained = self._trained or list(self._leaves.values())
        known = {parameter.untyped_storage()._cdata for parameter in trained}
        weights = math.fsum(parameter.numel() * parameter.element_size() for parameter in trained)
        return Workload(
            operators=operators,
            precision=_seen_precision(operators),
            matmul_tf32=torch.backends.cuda.matmul.allow_tf32,
            parameter_bytes=weights or None,
            activation_bytes=float(sum(size for storage, size in self._saved.items() if storage not in known)),
            batch_bytes=self._batch_bytes or batch_bytes,
        ).validated()

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        try:
            storage = tensor.untyped_storage()
            self._saved[storage._cdata] = storage.nbytes()
        except Exception as error:
            self._failed = error
        return tensor

    def _updating(self, *, is_so: bool) -> None:
        self._in_optimizer = is_so

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        begin = perf_counter()
        out = func(*args, **kwargs)
        if self._is_outside():
            self._num_outside += 1
            self._outside_s += perf_counter() - begin
        name = func._overloadpacket.__name__
        # Collectives of a run on several processes are the model's to predict, not work of one device.
        if not self._aside and "c10d" not in func.namespace:
            try:
                self._record(func, name, args, kwargs, out)
            except Exception as error:
                self._failed = error
        return out

    def _stage(self) -> Phase:
        if torch._C._current_autograd_node() is not None:
            return Phase.BACKWARD
        # A closure runs inside `optimizer.step` (LBFGS, Lightning), with gradients on; updates run with gradients off.
        return Phase.OPTIMIZER if self._in_optimizer and not torch.is_grad_enabled() else Phase.FORWARD

    def _record(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        outputs = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        for tensor in inputs:
            if tensor.requires_grad and tensor.is_leaf:
                self._leaves[tensor.untyped_storage()._cdata] = tensor
        if is_free(func, name, outputs):
            return
        flop = flop_of(func, args, kwargs, out)
        written = bytes_of(outputs)
        read = bytes_of(inputs[1:] if name in _WRITES_OVER or name in _SPARSE_READS else inputs)
        if name in _SPARSE_READS:
            read += written
        if name in _COPIES and inputs[-1].device.type == "cpu" and outputs[0].device.type not in ("cpu", "meta"):
            self._batch_bytes += written
            return
        kernels = _kernels(name, args)
        one = Operator(
            kind=kind_of(name, grouped=_grouped(name, args)),
            name=f"aten::{name}",
            stage=self._stage(),
            dtype=str((inputs or outputs)[0].dtype).removeprefix("torch."),
            flop=flop / kernels,
            moved_bytes=(read + written) / kernels,
        )
        self._counts[one] = self._counts.get(one, 0) + kernels


def flop_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> float:
    """Operations as torch.utils.flop_counter counts them. It is blind to recurrent layers and a CPU's attention, and in
    gradients of grouped convolutions takes every input channel for every output channel (torch 2.13)."""
    name = func._overloadpacket.__name__
    if name.startswith("_scaled_dot_product_flash_attention_for_cpu"):
        backward = name.endswith("_backward")
        shapes = [one.shape for one in args[: 4 if backward else 3]]
        return float((sdpa_backward_flop_count if backward else sdpa_flop_count)(*shapes))
    if name.removesuffix("_backward") in _RECURRENT:
        samples: float = args[0].numel() / args[0].shape[-1]
        once = 2.0 * samples * sum(weight.numel() for weight in _recurrent_weights(name, args))
        return float(once * (2 if name.endswith("_backward") else 1))
    if name == "convolution_backward":
        transposed, wanted = args[7], args[-1]
        spread = args[1] if transposed else args[0]
        return float(2 * spread.numel() * math.prod(args[2].shape[1:]) * (int(wanted[0]) + int(wanted[1])))
    count = flop_registry.get(func._overloadpacket)
    return float(count(*args, **kwargs, out_val=out)) if count else 0.0


def _grouped(name: str, args: tuple[Any, ...]) -> bool:
    """A convolution with fewer than four input channels a group."""
    groups, weight = {"convolution": (8, 1), "convolution_backward": (-2, 2)}.get(name, (None, None))
    return groups is not None and weight is not None and args[groups] > 1 and args[weight].shape[1] < 4


class _AsOnGpu(TorchFunctionMode):
    """Lets attention run as a GPU would do it: a CPU has no fused kernel with dropout, and writes all weights out."""

    _is_over = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        attends = func is torch.nn.functional.scaled_dot_product_attention and not self._is_over
        if attends and args and args[0].device.type == "cpu":
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
            kwargs = {name: 0.0 if name == "dropout_p" else value for name, value in kwargs.items()}
        return func(*args, **kwargs)

    def __exit__(self, *raised: Any) -> None:
        """Within a call that it sees (a step that `loss.backward()` ends) torch has taken it off, and puts it on again
        behind: it stays there and does nothing."""
        self._is_over = True
        if any(mode is self for mode in _get_current_function_mode_stack()):  # type: ignore[no-untyped-call]  # torch's
            super().__exit__(*raised)  # type: ignore[no-untyped-call]  # torch's


def record(
    step: Callable[[], object], *, parameters: Iterable[torch.Tensor] = (), batch: Iterable[torch.Tensor] = ()
) -> Workload:
    """What `step` does, one whole training step, which really runs: `parameters` are trained, `batch` travels to it."""
    tracer = Tracer(parameters)
    tracer.start()
    try:
        step()
    finally:
        tracer.stop()
    return tracer.workload(batch_bytes=bytes_of(batch))


def _mapped(counts: Mapping[Operator, int]) -> Iterable[Operator]:
    """What was seen -> what a GPU runs."""
    updates: dict[tuple[str, str], list[tuple[Operator, int]]] = {}
    for one, count in counts.items():
        if one.stage is Phase.OPTIMIZER and one.kind is Kind.VECTOR and "fused" not in one.name:
            updates.setdefault((one.name, one.dtype), []).append((one, count))
        else:
            yield replace(one, count=float(count))
    for members in updates.values():
        kernels = math.ceil(sum(count for _, count in members) / TENSORS_A_KERNEL)
        moved_bytes = math.fsum(one.moved_bytes * count for one, count in members) / kernels
        yield replace(members[0][0], moved_bytes=moved_bytes, count=float(kernels))


def _seen_precision(operators: Iterable[Operator]) -> Precision:
    """The type in which most matrix operations were done."""
    done: dict[str, float] = {}
    for operator in operators:
        done[operator.dtype] = done.get(operator.dtype, 0.0) + operator.flop * operator.count
    most = max(done, key=lambda dtype: done[dtype], default="float32")
    return BY_DTYPE.get(most, Precision.FP32)
