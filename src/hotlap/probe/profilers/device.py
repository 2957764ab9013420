"""`device`: the phases of some steps by the device's own clock, an event on its stream wherever the host's is read."""

import math
from collections.abc import Callable, Generator, Mapping
from time import perf_counter
from typing import Any, ClassVar

from hotlap import accelerator
from hotlap.probe.clock import OTHER, PHASES, Clock, read_again
from hotlap.probe.ledger import set_aside
from hotlap.probe.profilers.profiler import Profiler

# Events give milliseconds as float32: from one base on, 100 s later, they could tell 8 us apart. So each is measured
# from one that is no further away than this, where it is 4 ns.
_NEAR_S = 0.05


class DeviceClock:
    """The host's clock; between `open` and `close` it leaves an event with each look, and nobody waits for the device.

    All events are on one stream, the one on which the model trains: what others do beside it takes none of its time,
    unless it waits for them. The two clocks are never mixed: an interval has a length by the one, and another by the
    other, which includes the time in which the device waited for the host.
    """

    def __init__(
        self,
        *,
        make_event: Callable[[], Any] = lambda: accelerator.event(timed=True),
        host: Callable[[], float] = perf_counter,
    ) -> None:
        self._make_event = make_event
        self._host = host
        self._stream: Any = None
        self._events: dict[float, Any] = {}
        self.paused = False
        """A graph is captured: an event would become a part of it, and could not be read."""

    def now(self) -> float:
        """The host's time."""
        moment = self._host()
        if self._stream is not None and not self.paused:
            event = self._make_event()
            event.record(self._stream)
            self._events[moment] = event
        return moment

    def open(self, clock: Clock, stream: Any) -> None:
        """From now on `clock`, which reads this one, is followed on `stream`."""
        clock.kept, self._events, self._stream = [], {}, stream

    def close(self, clock: Clock, finish: Callable[[], None] = accelerator.synchronize) -> dict[str, Any]:
        """Phase -> seconds of each step that was seen whole, as `Run.device_phase_s`; empty without one.

        `finish` waits until the device has come to the last event.
        """
        self._stream, kept, clock.kept = None, clock.kept or [], None
        finish()
        times = _times(self._events)
        first = next(iter(times), math.inf)
        steps = read_again(kept, lambda moment: times.get(moment, -math.inf if moment < first else math.nan))
        rows = [step.spent for step in set_aside(steps)[0]]
        if not rows:
            return {}
        return {
            "device_phase_s": {
                # Two events may come out in the wrong order by the clock's resolution, half a microsecond.
                phase: tuple(max(0.0, row[i]) for row in rows) if i in clock.entered or i == OTHER else None
                for i, phase in enumerate(PHASES)
            }
        }


def _times(events: Mapping[float, Any]) -> dict[float, float]:
    """The host's moments -> seconds by the device since the first event."""
    times: dict[float, float] = {}
    base, base_s = None, 0.0
    for moment, event in events.items():
        base = base or event
        try:
            times[moment] = base_s + base.elapsed_time(event) / 1e3
        except RuntimeError:  # it never happened, or a graph has swallowed it
            continue
        if times[moment] - base_s > _NEAR_S:
            base, base_s = event, times[moment]
    return times


class DevicePhases(Profiler):
    """An event takes some microseconds of the host, at each end of each phase: too much for steps that are compared, so
    these steps are its own. Without a device there are none."""

    num_steps: ClassVar[int] = 17  # the first one is where the others begin
    patience_s: ClassVar[float] = 5.0
    fewest_steps: ClassVar[int] = 4

    def __init__(self) -> None:
        super().__init__()
        self._looks = False
        self._found: Mapping[str, Any] = {}

    def steps(self) -> Generator[None]:
        """On the stream on which the model trains."""
        device = self.session.facts.device()
        if accelerator.in_use() is not None and device.type != "cpu":
            self._looks = True
            self.session.device_clock.open(self.session.clock, accelerator.lane(device))
            for _ in self.paced():
                yield

    def close(self) -> None:
        """The events are read: by now the device may still have work."""
        if self._looks:
            self._found = self.session.device_clock.close(self.session.clock)

    def fields(self) -> Mapping[str, Any]:
        """`Run.device_phase_s`."""
        return self._found
