"""`operators`: one step counted operator by operator, and a few under torch's profiler, whose trace the parent reads
(`hotlap.trace.window`)."""

import os
import re
import time
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch.autograd import profiler as torch_profiler
from torch.profiler import profiler as kineto_profiler

from hotlap import accelerator, cuda
from hotlap.levers.lever import Patch
from hotlap.predict.trace import bytes_of, flop_of, is_free
from hotlap.probe import unseen
from hotlap.probe.digests import tensors
from hotlap.probe.guard import Function
from hotlap.probe.modes import ObserverMode, name_of, take_off
from hotlap.probe.profilers.profiler import Profiler
from hotlap.record import NO_OPERATORS, Operator, OperatorWindow

# Steps that are looked at, for so long at most; one whole step in any case.
_STEPS = 5
_PATIENCE_S = 5.0

# Events of all steps that are looked at, but for those of the first: torch's keeps all of them in memory (about
# 1 kB each), and writes a trace of a third of that.
_MANY_EVENTS = 200_000

# Of a step with more calls than this no profile is made: with what is within and around them it would be a million
# events, a gigabyte beside the training's own.
_TOO_MANY_CALLS = 300_000

# Kineto of torch 2.13 writes two lines to stderr for each session, whatever the severity, below this level.
_SILENT = "99"

# Operators that do much arithmetic, nobody here knows how much: with one of them the sum would be a part of the truth.
_UNKNOWN = re.compile(
    r"aten::.*(rnn|lstm|gru|mkldnn_|fft|linalg|cdist|_mm|svd|cholesky|inverse|solve|_weight_int|fbgemm|attention|mv"
    r"|trilinear|convolution)"
    # Of other libraries all, but those that compute next to nothing.
    r"|(?!aten::|c10d::|_c10d_functional::|profiler::|prims::|rngprims::)"
)

_MAX_OPERATORS = 40

_THEIRS = "the script runs a profiler of its own"


class Operators(Profiler):
    """Three stages, each from one step boundary to another: the count; a session that is thrown away, because the first
    one of a process loses events (pytorch#192021); and the look.
    """

    num_steps: ClassVar[int] = _STEPS + 3

    def __init__(self) -> None:
        super().__init__()
        self._profile: Any = None
        self._ours = False
        self._theirs = False
        self._refused: str | None = None
        self._looked_at = 0
        """Steps in the trace."""
        self._counting: Counting | None = None
        self._count_s = 0.0
        self._begun = 0.0
        self._whole = 0
        """Steps that were seen whole in the session under way, of those that are looked at."""
        self._dispatch_s: float | None = None

    def put_hooks(self, patch: Patch) -> None:
        """Hear of profilers that the script makes: two at a time are an error, which must never hit the script."""
        for kind in (torch_profiler.profile, torch_profiler.emit_nvtx, kineto_profiler._KinetoProfile):
            self.hook(patch, kind, "__init__", self._noticing)

    def steps(self) -> Generator[None]:
        """Count first: how much torch's profiler would have to keep is known then."""
        if unseen.within_compiled():
            # 3 of 12 such processes ended in SIGSEGV, and 0 of 24 without this profiler. Why is not known. (A session
            # that begins or ends within an optimizer's step does so too, see `Session.turn_page`.)
            self._refused = "the optimizer steps within a compiled function, where profiled runs have crashed"
            return
        self._theirs |= _profiler_runs()
        # Of compiled code a count shows parts only, and older versions of torch would run it uncompiled meanwhile.
        if not self.session.facts.compiled:
            yield from self._count()
        if self._theirs:
            self._refused = _THEIRS
            return
        if self._counting is not None and sum(self._counting.calls.values()) > _TOO_MANY_CALLS:
            self._refused = "a step makes more calls than a profiler should keep in memory"
            return
        with _default("KINETO_LOG_LEVEL", _SILENT):
            self._start()
        yield
        if not self._theirs:
            # Another session follows at once, into which the end of this one would fall (pytorch/kineto#1554).
            num_events = len(self._stop(detach=False).events())
            yield from self._look(max(1, min(_STEPS, _MANY_EVENTS // max(1, num_events))))

    def _count(self) -> Iterator[None]:
        """One step; another one where that held a validation."""
        while self._counting is None:
            counting = Counting()
            try:
                self.put_on(counting.mode)
            except RuntimeError as error:
                self._refused = str(error)
                return
            begun = time.perf_counter()
            yield
            counted_s = time.perf_counter() - begun
            take_off(counting.mode)
            if self.validated() is None:
                self._counting, self._count_s = counting, counted_s

    def _look(self, wanted: int) -> Iterator[None]:
        """Steps in a trace, marked as torch's own schedules mark theirs."""
        self._start()
        while self._whole < wanted and time.perf_counter() - self._begun <= _PATIENCE_S:
            mark: Any = torch_profiler.record_function(f"ProfilerStep#{self._whole}")
            mark.__enter__()
            yield
            if self._theirs:
                return
            mark.__exit__(None, None, None)
            if self.validated() is None:
                self._whole += 1
            elif self._whole:
                return  # it is left out, as one that the script does not end
            else:
                self._stop(detach=False)
                self._start()

    def forked(self) -> None:
        """A worker must not keep events, or count, for as long as it lives."""
        super().forked()
        if self._profile is not None:
            torch._C._autograd._enable_record_function(False)

    def close(self) -> None:
        """What was seen whole in a trace is kept."""
        if self._profile is not None and self._whole:
            self._stop().save(str(self.session.out / f"operators-{self.session.collectives.rank}.json"))
            self._looked_at = self._whole
        elif self._profile is not None:
            self._stop()
        super().close()
        # Last, when nothing of ours is on any more.
        self._dispatch_s = None if _profiler_runs() else dispatch_s()

    def fields(self) -> Mapping[str, Any]:
        """What could be seen without torch's profiler; the trace, where there is one, tells the rest."""
        if self._counting is None and not self._looked_at:
            return {"notes": (f"{NO_OPERATORS}: {self._refused or 'the run was over before'}.",)}
        # A compiled graph is one call here: what is in it was not counted.
        counting, counts = self._counting or Counting(), self._counting is not None and not self.session.facts.compiled
        return {
            "operators": OperatorWindow(
                num_steps=self._looked_at or 1,
                wall_s=self._count_s,
                operators=counting.operators(),
                num_calls=sum(counting.calls.values()),
                complete=False,
                why_not=f"{self._refused or 'the trace was lost'}, so operators were counted without a profiler",
                dispatch_s=self._dispatch_s,
                flops=counting.flops if counts else None,
                moved_bytes=counting.num_bytes if counts else None,
            )
        }

    # Sessions of torch's profiler

    def _noticing(self, construct: Function, *args: Any, **kwargs: Any) -> None:
        if not self._ours:
            self._theirs = True
            if self._profile is not None:
                self._stop()
                self._refused = _THEIRS
        construct(*args, **kwargs)

    def _start(self) -> None:
        self._ours = True
        try:
            self._profile = torch_profiler.profile(use_device=accelerator.in_use(), use_kineto=True)
        finally:
            self._ours = False
        self._profile.__enter__()
        self._begun = time.perf_counter()

    def _stop(self, *, detach: bool = True) -> Any:
        """What kineto kept."""
        profile, self._profile = self._profile, None
        # This waits for the device, as torch's profiler always does.
        with _default("TEARDOWN_CUPTI", "1" if detach and cuda.detaches_profiler() else "0"):
            profile.__exit__(None, None, None)
        return profile.kineto_results


class Counting:
    """On for one step. It sees what torch's kernels are called with; a graph of torch.compile it sees only in parts."""

    def __init__(self) -> None:
        self.mode = ObserverMode(self._see)
        self.calls: dict[str, int] = defaultdict(int)
        self.seconds: dict[str, float] = defaultdict(float)
        self.num_bytes = 0.0
        self._flops = 0.0
        self._uncounted = False

    @property
    def flops(self) -> float | None:
        """None where a heavy operator has no formula."""
        return None if self._uncounted or self.mode.failures else self._flops

    def operators(self) -> tuple[Operator, ...]:
        """By their time in this mode, which is longer than it would be alone."""
        costliest = sorted(self.seconds.items(), key=lambda item: -item[1])[:_MAX_OPERATORS]
        return tuple(Operator(name=name, per_step=self.calls[name], self_s=seconds) for name, seconds in costliest)

    def _see(self, func: Any, args: Any, kwargs: Any, result: Any, seconds: float) -> None:
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


@contextmanager
def _default(name: str, value: str) -> Iterator[None]:
    """An environment variable within, unless it is set already."""
    free = name not in os.environ
    os.environ.setdefault(name, value)
    try:
        yield
    finally:
        if free:
            os.environ.pop(name, None)


def _profiler_runs() -> bool:
    return bool(torch._C._autograd._profiler_enabled() or getattr(torch_profiler, "_is_profiler_enabled", False))


def dispatch_s() -> float:
    """Seconds that the CPU spends on one small operator with gradients, under no profiler; a few milliseconds.

    Anomaly mode is off meanwhile: it writes a traceback for each, 230 us instead of 2.3, which is no call's price.
    """
    found_on, checks = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    switch = torch._C.set_anomaly_enabled  # past our hook, which notes what the script sets
    switch(False)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            values = torch.ones(8, device="cpu", requires_grad=True)
            for _ in range(20):
                values * values
            blocks = []
            for _ in range(10):
                begun = time.perf_counter()
                for _ in range(50):
                    values * values
                blocks.append((time.perf_counter() - begun) / 50)
    finally:
        switch(found_on, checks)
    # The least disturbed block: an interruption makes the others longer, nothing makes one shorter.
    return min(blocks)
