"""With which numbers a trace's products compute: by the types of tensors where these were recorded, else by kernels."""

import re
from collections import defaultdict

from hotlap.predict.precision import Precision
from hotlap.trace import arguments, kernels
from hotlap.trace.peaks import PRECISIONS
from hotlap.trace.table import Trace
from hotlap.trace.work import StepKernels

HALF = frozenset({Precision.BF16, Precision.FP16})

_BRAIN, _HALF = re.compile(r"bf16|BFloat16"), re.compile(r"f16|fp16|half|Half|hgemm|h884|h1688|h16816")


def precision(trace: Trace, done: StepKernels) -> Precision:
    """That most of the time of products is spent in, by types where they were recorded and else by names of kernels."""
    seconds: dict[Precision, float] = defaultdict(float)
    for name, operator, spent in zip(trace.name[done.rows], done.operators, done.seconds, strict=True):
        kernel = trace.names[name]
        on_cores = kernels.on_matrix_cores(kernel)
        if on_cores is None:
            continue
        inputs = trace.inputs[operator] if operator >= 0 else -1
        dtype = arguments.read(trace.arguments[inputs]).dtype if inputs >= 0 else ""
        if dtype in PRECISIONS:
            found = PRECISIONS[dtype]
        elif not dtype and on_cores and (_BRAIN.search(kernel) or _HALF.search(kernel)):
            found = Precision.BF16 if _BRAIN.search(kernel) else Precision.FP16
        else:
            found = Precision.TF32 if on_cores else Precision.IEEE
        seconds[found] += spent
    return max(seconds, key=lambda precision: seconds[precision], default=Precision.FP32)
