"""One step, operator by operator: calls, floating-point operations, bytes read and written."""

import re
from collections import defaultdict
from typing import Any

import torch

from hotlap.predict.trace import bytes_of, flop_of, is_free
from hotlap.probe.digests import tensors
from hotlap.probe.modes import ObserverMode, name_of
from hotlap.record import Operator

# Operators that do much arithmetic, nobody here knows how much: with one of them the sum would be a part of the truth.
_UNKNOWN = re.compile(
    r"aten::.*(rnn|lstm|gru|mkldnn_|fft|linalg|cdist|_mm|svd|cholesky|inverse|solve|_weight_int|fbgemm|attention|mv"
    r"|trilinear|convolution)"
    # Of other libraries all, but those that compute next to nothing.
    r"|(?!aten::|c10d::|_c10d_functional::|profiler::|prims::|rngprims::)"
)

_MAX_OPERATORS = 40


class Counting(ObserverMode):
    """On for one step. It sees what torch's kernels are called with; a graph of torch.compile it sees only in parts."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, int] = defaultdict(int)
        self.seconds: dict[str, float] = defaultdict(float)
        self.num_bytes = 0.0
        self._flops = 0.0
        self._uncounted = False

    @property
    def flops(self) -> float | None:
        """None where a heavy operator has no formula."""
        return None if self._uncounted or self.failures else self._flops

    def operators(self) -> tuple[Operator, ...]:
        """By their time in this mode, which is longer than it would be alone."""
        costliest = sorted(self.seconds.items(), key=lambda item: -item[1])[:_MAX_OPERATORS]
        return tuple(Operator(name=name, per_step=self.calls[name], self_s=seconds) for name, seconds in costliest)

    def saw(self, func: Any, args: Any, kwargs: Any, result: Any, seconds: float) -> None:
        """An operator was called."""
        name = name_of(func)
        self.calls[name] += 1
        self.seconds[name] += seconds
        if not isinstance(func, torch._ops.OpOverload):
            self._uncounted = True  # a higher-order one
            return
        inputs, outputs = tensors((args, kwargs)), tensors(result)
        if is_free(func, name.partition("::")[2], outputs):
            return
        flops = flop_of(func, args, kwargs, result)
        self._flops += flops
        self._uncounted |= not flops and _UNKNOWN.match(name) is not None
        # What returns nothing changes what it is given (`_foreach_add_`).
        self.num_bytes += bytes_of(inputs) + bytes_of(outputs or inputs)
