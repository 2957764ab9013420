"""The phases of each step by the device's own clock: an event on its stream wherever the host's clock is read."""

import math
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, Protocol, Self

import torch

from hotlap.probe import device
from hotlap.probe.clock import OTHER, PHASES, Clock, read_again
from hotlap.probe.evidence import cuda_in_use
from hotlap.record import Phase, Plan

# An event takes some microseconds of the host and a few hundred bytes; a measured window has some thousands of them.
_MOST_EVENTS = 50_000


class Event(Protocol):
    """What `torch.cuda.Event(enable_timing=True)` can do."""

    def record(self) -> None:
        """Note the moment at which the stream comes here."""

    def elapsed_time(self, other: Self, /) -> float:
        """Milliseconds from this event to `other`; both have happened."""


def _timed_event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


class DeviceClock:
    """Reads as the host's clock does, and leaves an event each time. Nobody waits for the device before `phases`.

    The two clocks are never mixed: an interval has a length by the one, and another by the other, which includes the
    time in which the device waited for the host.
    """

    def __init__(
        self,
        *,
        make_event: Callable[[], Event] = _timed_event,
        in_use: Callable[[], bool] = cuda_in_use,
        host: Callable[[], float] = perf_counter,
    ) -> None:
        self._make_event = make_event
        self._in_use = in_use
        self._host = host
        self._events: dict[float, Event] = {}
        self.recorded: list[bool] = []
        """Of each step, in order: is it one of the recorded ones?"""

    def now(self) -> float:
        """The host's time, with an event beside it as soon as the script uses the device."""
        moment = self._host()
        if len(self._events) < _MOST_EVENTS and self._in_use():
            event = self._make_event()
            event.record()
            self._events[moment] = event
        return moment

    def phases(self, clock: Clock) -> Mapping[Phase, tuple[float, ...] | None]:
        """Phase -> seconds of each recorded step; empty if not every recorded step was seen whole.

        The device must have come to its last event.
        """
        if not self._events:
            return {}
        base = next(iter(self._events.values()))

        def on_device(moment: float) -> float:
            event = self._events.get(moment)
            return math.nan if event is None else base.elapsed_time(event) / 1e3

        laps = read_again(clock.kept or [], on_device)
        rows = [lap.spent for lap, recorded in zip(laps, self.recorded, strict=False) if recorded]
        if not rows or any(math.isnan(second) for row in rows for second in row):
            return {}
        return {phase: _column(rows, i) if i in clock.entered or i == OTHER else None for i, phase in enumerate(PHASES)}


def _column(rows: Sequence[Sequence[float]], i: int) -> tuple[float, ...]:
    # Two events may come out in the wrong order by the clock's resolution, half a microsecond.
    return tuple(max(0.0, row[i]) for row in rows)


def wanted(plan: Plan) -> bool:
    """In a run that is looked at closely, on a machine with a device. (A whole run would gather events without end.)"""
    return bool(plan.watches) and not plan.whole and device.may_be_used()
