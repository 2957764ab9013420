"""One step, operator by operator: calls, floating-point operations, bytes read and written."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from hotlap.probe.evidence import leaves
from hotlap.probe.modes import ObserverMode, is_view, name_of
from hotlap.record import Operator

# Operators of torch's own that do much arithmetic and have no formula in torch's table (those with one are looked up
# first): with one of them in a step its sum would be a part of the truth, so there is none.
_HEAVY = (
    "rnn", "lstm", "gru", "mkldnn_", "fft", "linalg", "cdist", "int_mm", "svd", "cholesky", "inverse", "solve", "_mm",
    "_weight_int", "fbgemm", "attention", "mv", "trilinear", "convolution",
)  # fmt: skip

# Namespaces whose operators do no arithmetic to speak of.
_LIGHT_NAMESPACES = ("c10d", "_c10d_functional", "profiler", "prims", "rngprims")

# torch's table (2.13) lacks the CPU's own kernels; they are called as the others are.
_SAME_FORMULA = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": torch.ops.aten._scaled_dot_product_flash_attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": (
        torch.ops.aten._scaled_dot_product_flash_attention_backward
    ),
}

_MAX_OPERATORS = 40


class Counting(ObserverMode):
    """On for one step. It sees what torch's kernels are called with; a graph of torch.compile it sees only in parts."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, int] = defaultdict(int)
        self.seconds: dict[str, float] = defaultdict(float)
        self.num_bytes = 0
        self._flops = 0
        self._uncounted = False
        self._still: dict[Any, bool] = {}
        """Operators that move nothing."""

    @property
    def flops(self) -> float | None:
        """None where a heavy operator has no formula."""
        return None if self._uncounted or self.failures else float(self._flops)

    def operators(self) -> tuple[Operator, ...]:
        """By their time in this mode, which is longer than it would be alone."""
        costliest = sorted(self.seconds.items(), key=lambda item: -item[1])[:_MAX_OPERATORS]
        return tuple(Operator(name=name, per_step=self.calls[name], self_s=seconds) for name, seconds in costliest)

    def saw(self, func: Any, args: Any, kwargs: Any, result: Any, seconds: float) -> None:
        """An operator was called."""
        schema = getattr(func, "_schema", None)
        name = name_of(func)
        self.calls[name] += 1
        self.seconds[name] += seconds
        packet = getattr(func, "_overloadpacket", func)
        formula = flop_registry.get(packet) or flop_registry.get(_SAME_FORMULA.get(name))
        if formula is not None:
            self._flops += int(formula(*args, **kwargs, out_val=result))
        elif _may_be_heavy(name):
            self._uncounted = True
        if schema is not None and not self._moves_nothing(func, name):
            self.num_bytes += _num_bytes((args, kwargs)) + _num_bytes(_written(schema, args, result))

    def _moves_nothing(self, func: Any, name: str) -> bool:
        known = self._still.get(func)
        if known is None:
            known = self._still[func] = is_view(func) or name.startswith(("aten::empty", "aten::new_empty"))
        return known


def _may_be_heavy(name: str) -> bool:
    namespace, _, operator = name.partition("::")
    if namespace != "aten":
        return namespace not in _LIGHT_NAMESPACES
    return any(part in operator for part in _HEAVY)


def _written(schema: Any, args: Any, result: Any) -> Any:
    """What an operator returns; of one that returns nothing, what it changes in place (`_foreach_add_`)."""
    if schema.returns:
        return result
    return [
        value
        for argument, value in zip(schema.arguments, args, strict=False)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]


def _num_bytes(values: Any) -> int:
    """Of all tensors in nested values, each once; of an expanded one what lies in memory."""
    return sum(
        min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
        for tensor in {id(tensor): tensor for tensor in _tensors(values)}.values()
    )


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    found: Iterable[Any] = leaves(values)
    return (leaf for leaf in found if isinstance(leaf, torch.Tensor))
