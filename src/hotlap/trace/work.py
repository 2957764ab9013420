"""What the device's time went to: by the kind of work, copies, collectives, and what it computed a second time."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from hotlap.record import DeviceWork
from hotlap.trace import kernels, spans
from hotlap.trace.recomputed import launched_again
from hotlap.trace.seen import Seen
from hotlap.trace.spans import Spans
from hotlap.trace.table import Ints, Kind

# As torch names them in a trace, and kernels that compute with them.
_HALF_TYPES = frozenset({"c10::Half", "c10::BFloat16"})
_HALF = re.compile(r"f16|BFloat16|fp16|half|Half|hgemm|h884|h1688|h16816")


class StepKernels:
    """Kernels of the steps, and the operators that launched them."""

    def __init__(self, seen: Seen) -> None:
        trace, starts = seen.trace, seen.trace.called()
        counted = seen.rows & (starts >= seen.steps.start) & (starts < seen.steps.end)
        self._seen, self._trace, self._steps = seen, trace, seen.count
        self._copies = np.flatnonzero(counted & trace.which(Kind.COPY))
        self.rows = np.flatnonzero(counted & trace.which(Kind.KERNEL, Kind.COMMUNICATION))
        self.seconds = trace.end[self.rows] - trace.start[self.rows]
        self.operators = seen.who.launched_in(self.rows)

    def kinds(self) -> tuple[DeviceWork, ...]:
        """Costliest first."""
        kinds = [str(kernels.work_of(self._trace.text(row), self._name(operator))) for row, operator, _ in self._each()]
        return self._beside(spans.NONE, self.rows, kinds)

    def _each(self) -> Iterator[tuple[int, int, float]]:
        """Row, operator and seconds of each kernel."""
        return zip(self.rows.tolist(), self.operators.tolist(), self.seconds.tolist(), strict=True)

    def _name(self, operator: int) -> str:
        return self._trace.text(operator) if operator >= 0 else ""

    def copies(self) -> tuple[DeviceWork, ...]:
        """Costliest first."""
        names = [self._trace.text(row) for row in self._copies.tolist()]
        return self._beside(self._trace.moments(self.rows), self._copies, names)

    def collectives(self) -> tuple[DeviceWork, ...]:
        """By kind, beside kernels that compute; costliest first."""
        trace, talks = self._trace, self._trace.kind[self.rows] == Kind.COMMUNICATION
        pairs = zip(self.rows[talks].tolist(), self.operators[talks].tolist(), strict=True)
        kinds = [kernels.collective(trace.text(row), trace.exchanged(row, caller).collective) for row, caller in pairs]
        return self._beside(trace.moments(self.rows[~talks]), self.rows[talks], kinds)

    def _beside(self, computing: Spans, rows: Ints, titles: Sequence[str]) -> tuple[DeviceWork, ...]:
        """What these events take, and how much of that kernels hide; by their titles."""
        trace, steps = self._trace, self._steps
        named: dict[str, list[int]] = defaultdict(list)
        for row, title in zip(rows.tolist(), titles, strict=True):
            named[title].append(row)
        found = []
        for title, ours in named.items():
            start, end = trace.start[ours], trace.end[ours]
            found.append(
                DeviceWork(
                    name=title,
                    device_s=float(np.sum(end - start)) / steps,
                    hidden_s=float(np.sum(spans.within(computing, start, end))) / steps,
                    per_step=len(start) / steps,
                    num_bytes=float(np.sum(np.maximum(trace.num_bytes[ours], 0))) / steps,
                )
            )
        return tuple(sorted(found, key=lambda one: -one.device_s))

    def matrix_core_share(self) -> float | None:
        """Part of the time of matrix products in kernels on matrix cores; None where no kernel tells."""
        told = [kernels.on_matrix_cores(name) for name in self._trace.names]
        on, off = (
            float(self.seconds[np.array([one is which for one in told])[self._trace.name[self.rows]]].sum())
            for which in (True, False)
        )
        return on / (on + off) if on + off > 0 else None

    def in_half_precision(self) -> bool:
        """Most of the time of products is spent in it, by types where they were recorded and else by kernels."""
        trace, half_s, other_s = self._trace, 0.0, 0.0
        for row, operator, seconds in self._each():
            kernel = trace.text(row)
            on_cores = kernels.on_matrix_cores(kernel)
            if on_cores is None:
                continue
            given = trace.types[trace.given[operator]] if operator >= 0 and trace.given[operator] >= 0 else ""
            if given in _HALF_TYPES or (not given and on_cores and _HALF.search(kernel)):
                half_s += seconds
            else:
                other_s += seconds
        return half_s > other_s

    def recomputed_s(self) -> float:
        """A step's kernels of the forward pass that were launched again within the backward pass."""
        return float(self.seconds[launched_again(self._seen)[self.rows]].sum()) / self._steps
