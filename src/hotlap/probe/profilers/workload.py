"""workload: one step of the script, operator by operator, for `hotlap predict`."""

import time
from collections.abc import Generator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from inspect import Signature, signature
from itertools import pairwise
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import torch
from torch.utils.data import dataloader

from hotlap import accelerator
from hotlap.levers.lever import Patch
from hotlap.predict.precision import Precision
from hotlap.predict.trace import Tracer
from hotlap.predict.workload import LAUNCH_S, STEP_OPERATORS, Workload
from hotlap.probe.clock import BACKWARD, OTHER
from hotlap.probe.digests import tensors
from hotlap.probe.guard import Function
from hotlap.probe.profilers.profiler import Profiler
from hotlap.record import Phase, encode
from hotlap.record.moments import median

# Time for measuring the host: a few hundred operators.
_HOST_S = 0.01
_PRECISIONS = {torch.float16: Precision.FP16, torch.bfloat16: Precision.BF16}


class WorkloadProfiler(Profiler):
    """Traces one step; a second one where a validation fell into the first. A compiled model runs as it was written for
    it: the trace wants operators, not kernels of a CPU's compiler."""

    num_steps: ClassVar[int] = 2

    def __init__(self) -> None:
        super().__init__()
        self._tracer: Tracer | None = None
        self._batch_bytes = 0.0
        self._called_with_bytes = 0.0
        self._host_s: float | None = None
        self._found: Workload | None = None
        self._outside_s = 0.0
        self._autocasts: WeakKeyDictionary[Any, torch.dtype] = WeakKeyDictionary()
        self._autocast: torch.dtype | None = None

    def put_hooks(self, patch: Patch) -> None:
        """Loading a batch is no work of the device: what runs within it is left out."""
        self.session.script.on_batch.append(self.guarded(self._drawn))
        self.session.script.on_forward.append(self.guarded(self._called))
        self.hook(patch, dataloader._BaseDataLoaderIter, "__next__", self._drawing)
        if not accelerator.may_come():
            # Without a GPU, torch disables autocast for one: what was asked is known when it is made, and counts if it
            # is entered in the traced step.
            self.hook(patch, torch.autocast, "__init__", partial(self._casting, signature(torch.autocast.__init__)))
            self.hook(patch, torch.autocast, "__enter__", self._entering)

    def _drawing(self, draw: Function, iterator: Any) -> Any:
        with self._tracer.aside() if self._tracer is not None else nullcontext():
            return draw(iterator)

    def _casting(self, asked: Signature, make: Function, one: Any, *args: Any, **kwargs: Any) -> None:
        make(one, *args, **kwargs)
        given = asked.bind(one, *args, **kwargs).arguments
        if one.device == "cuda" and given.get("enabled", True):
            self._autocasts[one] = one.fast_dtype

    def _entering(self, enter: Function, one: Any) -> Any:
        if self._tracer is not None:
            self._autocast = self._autocasts.get(one, self._autocast)
        return enter(one)

    def steps(self) -> Generator[None]:
        """One step more, if the first held a validation."""
        clock = self.session.clock
        self._host_s = self._measured_host_s(self.session.facts.device())
        torch.compiler.set_stance("force_eager")
        try:
            for _ in range(self.num_steps):
                self._batch_bytes = self._called_with_bytes = 0.0
                self._autocast = None
                tracer = Tracer(self.session.facts.parameters(), is_outside=lambda: clock.where == OTHER)
                self._tracer = tracer
                tracer.start()
                try:
                    yield
                finally:
                    self._tracer = None
                    tracer.stop()
                self._keep(tracer)
                if self.validated() is None:
                    return
        finally:
            torch.compiler.set_stance("default")

    def _keep(self, tracer: Tracer) -> None:
        work = tracer.workload(batch_bytes=self._batch_bytes or self._called_with_bytes)
        state_bytes = sum(_num_bytes(dict(one.state)) for one in self.session.facts.optimizers())
        self._found = replace(
            work,
            optimizer_state_bytes=state_bytes,
            host_s=self._host_s,
            autocast=None if self._autocast is None else _PRECISIONS.get(self._autocast),
        )
        self._outside_s = tracer.outside_s(host_s=self._host_s or 0.0)

    def fields(self) -> Mapping[str, Any]:
        """The workload, as JSON."""
        if self._found is None:
            return {}
        return {"workload": encode(replace(self._found, python_s=self._python_s())).decode()}

    def _python_s(self) -> float:
        """Of a recorded step: what lies between the phases, without the operators there and what each step needs."""
        columns = self.session.ledger.columns(measured=self.session.clock.entered)
        between_s = columns["phase_s"].get(Phase.OTHER)
        known_s = self._outside_s + STEP_OPERATORS * (self._host_s or 0.0)
        return max(0.0, median(between_s) - known_s) if between_s else 0.0

    def _drawn(self, iterator: Any, batch: Any) -> None:
        if self._tracer is not None:
            self._batch_bytes += _num_bytes(batch)

    def _called(self, module: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        # A loss module is called as well, with what the net gave; the first call of a step is the net's.
        if self._tracer is not None:
            self._called_with_bytes = self._called_with_bytes or _num_bytes((args, kwargs))

    def _measured_host_s(self, device: torch.device) -> float:
        """Seconds of the host for one operator: a chain of tiny products and sums, forward and backward.

        Nothing is drawn, and no module is called, so the script's random numbers and the probe's phases stay as they
        are.
        """
        clock = self.session.clock
        weight = torch.full((8, 8), 0.1, device=device, requires_grad=True)
        x = torch.full((8, 8), 0.1, device=device)
        length = 8
        before, clock.where = clock.where, BACKWARD
        try:
            with torch.enable_grad(), torch.autocast(device.type, enabled=False):
                _chain(x, weight, length)
                ends = [time.perf_counter()]
                while ends[-1] - ends[0] < _HOST_S:
                    _chain(x, weight, length)
                    ends.append(time.perf_counter())
        finally:
            clock.where = before
        # For each link a product and a relu; their gradients (two products and a comparison), and adding them up. The
        # median: on a busy machine some chains are interrupted.
        chain_s = median(later - sooner for sooner, later in pairwise(ends))
        return chain_s / (6 * length - 1) + (LAUNCH_S if device.type == "cpu" else 0.0)


def _chain(x: torch.Tensor, weight: torch.Tensor, length: int) -> None:
    for _ in range(length):
        x = torch.relu(torch.mm(x, weight))
    torch.autograd.grad(x.sum(), weight)


def _num_bytes(value: Any) -> float:
    return float(sum(leaf.nbytes for leaf in tensors(value)))
