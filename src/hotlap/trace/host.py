"""What the training threads did: loading, waiting, allocating, calling operators. Sets of moments, none in two."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotlap.record import Phase
from hotlap.trace import spans
from hotlap.trace.spans import Spans
from hotlap.trace.table import Kind, Mask, Trace

LOADS = r"enumerate\(DataLoader\)|.*torch/utils/data/dataloader\.py\(\d+\): __next__"
_UPDATES = r"Optimizer\.(?:step|zero_grad)#"
# Before torch 1.10 the nodes themselves, "CudnnConvolutionBackward".
_BACKWARD = r"autograd::engine::evaluate_function|torch::autograd::|\w+Backward\d*$"
_WAITS = (
    r"(?:cuda|hip)(?:Device|Stream|Event)Synchronize|cu(?:Ctx|Stream|Event)Synchronize"
    r"|(?:cuda|hip)Memcpy(?:WithStream)?$"
)
_ALLOCATES = r"(?:cuda|hip)(?:Ext)?(?:Host)?(?:Malloc|Free|Alloc)|cuMem(?:Create|Map|Unmap|Release|Alloc|Free|Address)"
PAGEABLE = r"Memcpy \w+ \(.*Pageable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Of all training threads together; a moment in several counts for the first of these."""

    input: Spans
    waits: Spans
    """For the device."""
    allocating: Spans
    copying: Spans
    """In calls that copy between host and device."""
    optimizer: Spans
    backward: Spans
    operators: Spans
    """Of torch, and calls of the device's runtime, outside of the others."""

    training: Mapping[Phase, Spans]
    """Optimizer, backward and the input, whole: what was launched there belongs to that phase."""

    def calling(self) -> Spans:
        """torch itself is at work, or the runtime for it: neither loading, nor waiting, nor allocating."""
        return spans.either(self.copying, self.backward, self.operators)

    def known(self) -> Spans:
        """All of it: what remains is Python between them."""
        return spans.either(self.input, self.waits, self.allocating, self.optimizer, self.calling())


def look(trace: Trace, threads: frozenset[int]) -> Host:
    """Reads it from names, as Kineto and torch give them on CUDA and HIP."""
    ours = np.isin(trace.lane, list(threads))
    calls = ours & trace.which(Kind.RUNTIME)
    operators = ours & trace.which(Kind.OPERATOR)
    of = trace.moments
    copies = trace.launch[trace.which(Kind.COPY) & (trace.launch >= 0)]
    sets = {
        "input": of(ours & trace.which(Kind.ANNOTATION, Kind.PYTHON) & trace.named(LOADS)),
        "waits": of(wait_rows(trace, threads)),
        "allocating": of(calls & trace.named(_ALLOCATES)),
        "copying": of(_only(copies, len(ours)) & ours),
        "optimizer": of(ours & trace.which(Kind.ANNOTATION) & trace.named(_UPDATES)),
        "backward": of(operators & trace.named(_BACKWARD)),
        "operators": of(operators | calls),
    }
    training = {Phase.OPTIMIZER: sets["optimizer"], Phase.BACKWARD: sets["backward"], Phase.INPUT: sets["input"]}
    taken, found = spans.NONE, {}
    for name, moments in sets.items():
        found[name] = spans.without(moments, taken)
        taken = spans.either(taken, moments)
    return Host(training=training, **found)


def wait_rows(trace: Trace, threads: frozenset[int]) -> Mask:
    """Calls that return when the device has come so far; a copy from or to memory that is not pinned is one."""
    calls = np.isin(trace.lane, list(threads)) & trace.which(Kind.RUNTIME)
    blocking = trace.launch[trace.which(Kind.COPY) & trace.named(PAGEABLE) & (trace.launch >= 0)]
    return calls & (trace.named(_WAITS) | _only(blocking, len(calls)))


def _only(rows: np.ndarray, count: int) -> Mask:
    mask = np.zeros(count, bool)
    mask[rows] = True
    return mask
