"""`operators`: one step counted operator by operator, and a few under torch's profiler, aggregated here."""

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch.autograd import profiler as torch_profiler
from torch.profiler import profiler as kineto_profiler

from hotlap import accelerator, cuda
from hotlap.levers.lever import Patch
from hotlap.probe import modes
from hotlap.probe.counting import Counting
from hotlap.probe.guard import Function
from hotlap.probe.timeline import Event, Kind, aggregate, is_operator
from hotlap.probe.watches.watch import Watch
from hotlap.record import OperatorWindow

if TYPE_CHECKING:
    from hotlap.probe.session import Session

# Steps that are looked at, for so long at most; one whole step in any case.
_STEPS = 5
_PATIENCE_S = 5.0

# A step of so many events is looked at alone: the profiler keeps all of them in memory (about 1 kB each).
_MANY_EVENTS = 200_000

# Of a step with more calls than this no profile is made: with what is within and around them it would be a million
# events, a gigabyte beside the training's own.
_TOO_MANY_CALLS = 300_000

# Kineto of torch 2.13 writes two lines to stderr for each session, whatever the severity, below this level.
_SILENT = "99"

_THEIRS = "the script runs a profiler of its own"


class _Stage(Enum):
    COUNT = auto()
    WARM = auto()
    LOOK = auto()
    OVER = auto()


class Operators(Watch):
    """Three stages, each from one step boundary to another: the count; a session that is thrown away, because the first
    one of a process loses events (pytorch#192021); and the look.
    """

    num_steps: ClassVar[int] = _STEPS + 3

    def __init__(self) -> None:
        self._stage = _Stage.OVER
        self._profile: Any = None
        self._ours = False
        self._theirs = False
        self._refused: str | None = None
        self._window: OperatorWindow | None = None
        self._counting: Counting | None = None
        self._count_s = 0.0
        self._begun = 0.0
        self._boundary = 0.0
        self._begun_ns = 0
        self._boundary_ns = 0
        self._steps = 0
        self._wanted = _STEPS
        self._dispatch_s: float | None = None
        self._events_around: tuple[Any, Any] | None = None

    def install(self, session: "Session", patch: Patch) -> None:
        """Hear of profilers that the script makes: two at a time are an error, which must never hit the script."""
        self._session = session
        for kind in (torch_profiler.profile, torch_profiler.emit_nvtx, kineto_profiler._KinetoProfile):
            patch.set(kind, "__init__", self.around(kind.__init__, self._noticing))

    def open(self) -> None:
        """Count first: how much a profiler would have to keep is known then."""
        if self._theirs or _profiler_runs():
            self._theirs, self._refused = True, _THEIRS
        # Of compiled code a count shows parts only, and older versions of torch would run it uncompiled meanwhile.
        if self._session.facts.compiled or not self._begin_count():
            self._begin_warm()

    def goes_on(self, num_steps: int) -> bool:
        """At each boundary: the stage may be over."""
        if num_steps:
            self._steps += 1
            self._next_stage()
        return self._stage is not _Stage.OVER

    def _next_stage(self) -> None:
        if self._stage is _Stage.COUNT:
            self._end_count()
            self._begin_warm()
        elif self._stage is _Stage.WARM:
            # Another session follows at once, into which the end of this one would fall (pytorch/kineto#1554).
            found = self._stop(detach=False)
            self._wanted = 1 if len(found) > _MANY_EVENTS else _STEPS
            self._stage = _Stage.LOOK
            self._start()
        elif self._stage is _Stage.LOOK:
            self._boundary, self._boundary_ns = time.perf_counter(), time.time_ns()
            if self._steps >= self._wanted or self._boundary - self._begun > _PATIENCE_S:
                self._end_look()
                self._stage = _Stage.OVER

    def _begin_warm(self) -> None:
        self._stage = _Stage.OVER
        if self._theirs:
            return
        if self._counting is not None and sum(self._counting.calls.values()) > _TOO_MANY_CALLS:
            self._refused = "a step makes more calls than a profiler should keep in memory"
            return
        self._stage = _Stage.WARM
        with _default("KINETO_LOG_LEVEL", _SILENT):
            self._start()

    def forked(self) -> None:
        """A worker must not keep events, or count, for as long as it lives."""
        if self._counting is not None:
            modes.take_off(self._counting)
        if self._profile is not None:
            torch._C._autograd._enable_record_function(False)

    def close(self, num_steps: int) -> None:
        """Whatever stage it is in."""
        if self._stage is _Stage.LOOK and self._steps:
            self._end_look()
        elif self._profile is not None:
            self._stop()
        if self._counting is not None:
            modes.take_off(self._counting)
        self._stage = _Stage.OVER
        # Last, when nothing of ours is on any more.
        self._dispatch_s = None if _profiler_runs() else dispatch_s(self._device())

    def fields(self) -> Mapping[str, Any]:
        """The window, or what could be seen without a profiler."""
        counting = self._counting if self._count_s > 0 else None
        window = self._window or (self._counted(counting) if counting is not None else None)
        if window is None:
            return {"notes": (f"No operators were seen: {self._refused or 'the script ended too early'}.",)}
        # A compiled graph is one call here: what is in it was not counted.
        counts = counting is not None and not self._session.facts.compiled
        return {
            "operators": replace(
                window,
                dispatch_s=self._dispatch_s,
                flops=counting.flops if counting is not None and counts else None,
                moved_bytes=float(counting.num_bytes) if counting is not None and counts else None,
            )
        }

    # The profiler's sessions

    def _noticing(self, construct: Function) -> Function:
        def __init__(it: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes that method
            if not self._ours:
                self._theirs = True
                if self._profile is not None:
                    self._stop()
                    self._refused, self._stage = _THEIRS, _Stage.OVER
            construct(it, *args, **kwargs)

        return __init__

    def _start(self) -> None:
        device = accelerator.in_use()
        self._ours = True
        try:
            self._profile = torch_profiler.profile(use_device=device, use_kineto=True)
        finally:
            self._ours = False
        self._profile.__enter__()
        if device is not None:
            self._events_around = (accelerator.event(timed=True), accelerator.event(timed=True))
            self._events_around[0].record()
        self._steps = 0
        self._begun, self._begun_ns = time.perf_counter(), time.time_ns()

    def _stop(self, *, detach: bool = True) -> list[Any]:
        profile, self._profile = self._profile, None
        if self._events_around is not None:
            self._events_around[1].record()
        # This waits for the device, as torch's profiler always does.
        with _default("TEARDOWN_CUPTI", "1" if detach and cuda.detaches_profiler() else "0"):
            profile.__exit__(None, None, None)
        return list(profile.kineto_results.events())

    def _end_look(self) -> None:
        on_device = self._events_around is not None
        events = [event for raw in self._stop() if (event := as_event(raw, since_ns=self._begun_ns)) is not None]
        self._window = aggregate(
            before(events, (self._boundary_ns - self._begun_ns) / 1e9),
            num_steps=self._steps,
            wall_s=self._boundary - self._begun,
            on_device=on_device,
            device_s=self._device_s(),
        )

    def _device_s(self) -> float | None:
        if self._events_around is None:
            return None
        begun, ended = self._events_around
        return float(begun.elapsed_time(ended)) / 1e3

    # The count

    def _begin_count(self) -> bool:
        counting = Counting()
        try:
            modes.put_on(counting)
        except RuntimeError as error:
            self._refused = self._refused or str(error)
            return False
        self._stage = _Stage.COUNT
        self._counting = counting
        self._begun = time.perf_counter()
        return True

    def _end_count(self) -> None:
        if self._counting is not None:
            self._count_s = time.perf_counter() - self._begun
            modes.take_off(self._counting)

    def _counted(self, counting: Counting) -> OperatorWindow:
        return OperatorWindow(
            num_steps=1,
            wall_s=self._count_s,
            operators=counting.operators(),
            num_calls=sum(counting.calls.values()),
            complete=False,
            why_not=f"{self._refused}, so operators were counted without one",
        )

    def _device(self) -> torch.device:
        for optimizer in self._session.facts.optimizers():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    return torch.device(parameter.device)
        return torch.device("cpu")


class Kernels(Operators):
    """`kernels`: the same where there is a device, and else nothing."""

    def open(self) -> None:
        """The model's device is in use by now."""
        if accelerator.in_use() is not None:
            super().open()

    def close(self, num_steps: int) -> None:
        """Nothing was begun, where there is none."""
        if accelerator.in_use() is not None:
            super().close(num_steps)

    def fields(self) -> Mapping[str, Any]:
        """As those of `operators`."""
        return {} if accelerator.in_use() is None else super().fields()


_WAIT = re.compile(r"(Context|Stream|Event|Device)\b.*(Sync|Wait)", re.IGNORECASE)
# "cudaLaunchKernel", "cuLaunchKernelEx", "cudaMemcpyAsync", "cudaGraphLaunch", "hipLaunchKernel"; of others likewise.
_LAUNCH = re.compile(r"[a-z]+[A-Z]?\w*(Launch|Memcpy|Memset|Enqueue)\w*")
_FILLS = ("Memset", "Memcpy DtoD", "Memcpy PtoP", "[memory]")


def before(events: list[Event], until_s: float) -> list[Event]:
    """What began on the host until then, and what runs on the device for it: the script may end within a step."""
    host = [event for event in events if event.kind in (Kind.OPERATOR, Kind.LAUNCH) and event.begin_s <= until_s]
    late = {event.id for event in events if event.kind is Kind.LAUNCH and event.begin_s > until_s}
    device = [event for event in events if event.kind not in (Kind.OPERATOR, Kind.LAUNCH) and event.id not in late]
    return [*host, *device]


def as_event(raw: Any, *, since_ns: int) -> Event | None:
    """An event of torch's profiler -> ours; None for what is neither an operator, nor a launch, nor on the device."""
    name = raw.name()
    kind = _host_kind(name) if raw.device_type() == torch._C._autograd.DeviceType.CPU else _device_kind(raw, name)
    if kind is None or raw.is_async():
        return None
    on_host = kind in (Kind.OPERATOR, Kind.LAUNCH)
    # Whole nanoseconds first: seconds since 1970 leave a float no more than a quarter of a microsecond.
    begin_s = (raw.start_ns() - since_ns) / 1e9
    return Event(
        name=name,
        kind=kind,
        begin_s=begin_s,
        end_s=begin_s + raw.duration_ns() / 1e9,
        lane=raw.start_thread_id() if on_host else raw.device_resource_id(),
        id=raw.correlation_id(),
        operator=0 if on_host else raw.linked_correlation_id(),
    )


def _host_kind(name: str) -> Kind | None:
    if is_operator(name):
        return Kind.OPERATOR
    return Kind.LAUNCH if _LAUNCH.fullmatch(name) else None


def _device_kind(raw: Any, name: str) -> Kind | None:
    # A range of the script's own (record_function) is shown on the device as well; it is no work.
    if getattr(raw, "is_user_annotation", _no)() or name.startswith("ProfilerStep"):
        return None
    if name.startswith(_FILLS):
        return Kind.FILL
    if name.startswith("Memcpy"):
        return Kind.COPY
    # Waits of streams and of the host are events of the device's lane too.
    return None if _WAIT.match(name) else Kind.KERNEL


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


def _no() -> bool:
    return False


def _profiler_runs() -> bool:
    return bool(torch._C._autograd._profiler_enabled() or getattr(torch_profiler, "_is_profiler_enabled", False))


def dispatch_s(device: torch.device) -> float:
    """Seconds that the host spends on one small operator with gradients, under no profiler; a few milliseconds."""
    with torch.inference_mode(False), torch.enable_grad():
        values = torch.ones(8, device=device, requires_grad=True)
        for _ in range(20):
            values * values
        blocks = []
        # A device's queue holds about a thousand launches; beyond, the host would wait for it.
        for _ in range(10):
            begun = time.perf_counter()
            for _ in range(50):
                values * values
            blocks.append((time.perf_counter() - begun) / 50)
    # The least disturbed block: an interruption makes the others longer, nothing makes one shorter.
    return min(blocks)
