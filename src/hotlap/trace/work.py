"""What the device's time went to: by the kind of work, by operator and shape, and what it computed a second time."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from hotlap.predict.precision import BY_DTYPE, Precision
from hotlap.record import CopyWork, KernelWork, ShapedOperator
from hotlap.trace import arguments, kernels, spans
from hotlap.trace.peaks import matrix_peak
from hotlap.trace.recomputed import launched_again
from hotlap.trace.seen import Seen
from hotlap.trace.spans import Spans
from hotlap.trace.table import Ints, Kind
from hotlap.units import plural

# Of the shapes only the costliest are told.
_MOST_SHAPES = 20
_GRAPH = r"(?:cuda|hip|cu)GraphLaunch"
HALF = frozenset({Precision.BF16, Precision.FP16})
_BRAIN, _HALF = re.compile(r"bf16|BFloat16"), re.compile(r"f16|fp16|half|Half|hgemm|h884|h1688|h16816")


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

    def kinds(self) -> tuple[KernelWork, ...]:
        """Costliest first."""
        found = defaultdict[kernels.Work, list[float]](list)
        for row, operator, seconds in self._each():
            found[kernels.work_of(self._trace.text(row), self._name(operator))].append(seconds)
        return self._costliest((str(work), seconds) for work, seconds in found.items())

    def _each(self) -> Iterator[tuple[int, int, float]]:
        """Row, operator and seconds of each kernel."""
        return zip(self.rows.tolist(), self.operators.tolist(), self.seconds.tolist(), strict=True)

    def _name(self, operator: int) -> str:
        return self._trace.text(operator) if operator >= 0 else ""

    def _costliest(self, titled: Iterable[tuple[str, list[float]]]) -> tuple[KernelWork, ...]:
        """(title, seconds of all) of each kind, costliest first."""
        works = (
            KernelWork(name=title, device_s=sum(seconds) / self._steps, per_step=len(seconds) / self._steps)
            for title, seconds in titled
        )
        return tuple(sorted(works, key=lambda one: -one.device_s))

    def copies(self) -> tuple[CopyWork, ...]:
        """Costliest first."""
        names = [self._trace.text(row) for row in self._copies.tolist()]
        return self._beside(self._trace.moments(self.rows), self._copies, names)

    def collectives(self) -> tuple[CopyWork, ...]:
        """By kind, beside kernels that compute; costliest first."""
        trace, talks = self._trace, self._trace.kind[self.rows] == Kind.COMMUNICATION
        computing = trace.moments(self.rows[~talks])
        kinds = [
            kernels.collective(trace.text(row), trace.exchanged(row, operator).collective)
            for row, operator, _ in self._each()
            if trace.kind[row] == Kind.COMMUNICATION
        ]
        return self._beside(computing, self.rows[talks], kinds)

    def _beside(self, computing: Spans, rows: Ints, titles: Sequence[str]) -> tuple[CopyWork, ...]:
        """What these events take, and how much of that kernels hide; by their titles."""
        trace, steps = self._trace, self._steps
        named: dict[str, list[int]] = defaultdict(list)
        for row, title in zip(rows.tolist(), titles, strict=True):
            named[title].append(row)
        found = []
        for title, ours in named.items():
            start, end = trace.start[ours], trace.end[ours]
            found.append(
                CopyWork(
                    name=title,
                    device_s=float(np.sum(end - start)) / steps,
                    hidden_s=float(np.sum(spans.within(computing, start, end))) / steps,
                    per_step=len(start) / steps,
                    num_bytes=float(np.sum(np.maximum(trace.num_bytes[ours], 0))) / steps,
                )
            )
        return tuple(sorted(found, key=lambda one: -one.device_s))

    def graphs(self) -> tuple[KernelWork, ...]:
        """Costliest first. No trace numbers them: one graph is what runs the same kernels, launched at one place."""
        trace = self._trace
        whole = trace.named(_GRAPH)
        launched: dict[int, list[int]] = defaultdict(list)
        for at, launch in enumerate(trace.launch[self.rows].tolist()):
            if launch >= 0 and whole[launch]:
                launched[launch].append(at)
        found = defaultdict[tuple[str, tuple[int, ...]], list[float]](list)
        for launch, kernels_of in launched.items():
            names = tuple(sorted(trace.name[self.rows[kernels_of]].tolist()))
            found[self._place(launch), names].append(float(self.seconds[kernels_of].sum()))
        return self._costliest(
            (f"a graph of {plural(len(names), 'kernel')}{place}", seconds) for (place, names), seconds in found.items()
        )

    def _place(self, launch: int) -> str:
        """ ", launched in CompiledFunction at train.py:12", as far as that is known."""
        operator, line = int(self._seen.who.operator[launch]), self._seen.who.line(launch)
        within = f" in {self._trace.text(operator)}" if operator >= 0 else ""
        at = f" at {line.path}:{line.line}" if line is not None else ""
        return f", launched{within}{at}" if within or at else ""

    def shapes(self) -> tuple[ShapedOperator, ...]:
        """Operators by what they were given, costliest first; none where no shapes were recorded. Collectives are told
        elsewhere."""
        trace = self._trace
        known = (self.operators >= 0) & (trace.kind[self.rows] != Kind.COMMUNICATION)
        known[known] = trace.inputs[self.operators[known]] >= 0
        callers = self.operators[known]
        if not len(callers):
            return ()
        columns = np.column_stack((trace.name[callers], trace.inputs[callers]))
        pairs, which = np.unique(columns, axis=0, return_inverse=True)
        seconds = np.bincount(which.ravel(), self.seconds[known], len(pairs))
        calls = np.bincount(which.ravel()[np.unique(callers, return_index=True)[1]], minlength=len(pairs))
        device = trace.devices.get(trace.lanes[trace.lane[self.rows[0]]][0], "")
        on_cores = np.array([kernels.on_matrix_cores(name) is True for name in trace.names])[
            trace.name[self.rows[known]]
        ]
        cores_s = np.bincount(which.ravel(), self.seconds[known] * on_cores, len(pairs))
        costliest = np.argsort(-seconds, kind="stable")[:_MOST_SHAPES]
        return tuple(
            self._shaped(pairs[i], float(seconds[i]), int(calls[i]), device, on_cores=bool(2 * cores_s[i] > seconds[i]))
            for i in costliest.tolist()
        )

    def _shaped(self, pair: Ints, seconds: float, calls: int, device: str, *, on_cores: bool) -> ShapedOperator:
        name, given = self._trace.names[pair[0]], arguments.read(self._trace.arguments[pair[1]])
        flop = arguments.flop(name, given)
        peak = matrix_peak(device, given.dtype, on_matrix_cores=on_cores)
        return ShapedOperator(
            name=name,
            shapes=given.text(),
            dtype=given.dtype,
            per_step=calls / self._steps,
            device_s=seconds / self._steps,
            flop=flop,
            peak_share=flop * calls / seconds / peak if flop is not None and peak and seconds > 0 else None,
        )

    def matrix_core_share(self) -> float | None:
        """Part of the time of matrix products in kernels on matrix cores; None where no kernel tells."""
        told = [kernels.on_matrix_cores(name) for name in self._trace.names]
        on, off = (
            float(self.seconds[np.array([one is which for one in told])[self._trace.name[self.rows]]].sum())
            for which in (True, False)
        )
        return on / (on + off) if on + off > 0 else None

    def precision(self) -> Precision:
        """That most of the time of products is spent in, by types where they were recorded and else by kernels."""
        trace, spent_s = self._trace, defaultdict[Precision, float](float)
        for row, operator, seconds in self._each():
            kernel = trace.text(row)
            on_cores = kernels.on_matrix_cores(kernel)
            if on_cores is None:
                continue
            inputs = trace.inputs[operator] if operator >= 0 else -1
            dtype = arguments.read(trace.arguments[inputs]).dtype if inputs >= 0 else ""
            if dtype in BY_DTYPE:
                found = BY_DTYPE[dtype]
            elif not dtype and on_cores and (_BRAIN.search(kernel) or _HALF.search(kernel)):
                found = Precision.BF16 if _BRAIN.search(kernel) else Precision.FP16
            else:
                found = Precision.TF32 if on_cores else Precision.IEEE
            spent_s[found] += seconds
        return max(spent_s, key=lambda precision: spent_s[precision], default=Precision.FP32)

    def recomputed_s(self) -> float:
        """A step's kernels of the forward pass that were launched again within the backward pass."""
        return float(self.seconds[launched_again(self._seen)[self.rows]].sum()) / self._steps
