"""Splits the time of a step into phases: each moment belongs to exactly one."""

from collections.abc import Callable
from time import perf_counter

from hotlap.record import Phase

PHASES = tuple(Phase)
INPUT, TRANSFER, FORWARD, BACKWARD, OPTIMIZER, COMMUNICATION, SYNC, OTHER = range(len(PHASES))


class Clock:
    """A stack of phases; time goes to the innermost one. `lap` closes a step.

    The sum of a lap is the wall time between the two laps, up to float rounding, by construction.
    """

    __slots__ = ("_last", "_now", "_phase", "_spent", "_stack", "num_events")

    def __init__(self, now: Callable[[], float] = perf_counter) -> None:
        self._now = now
        self._stack: list[int] = []
        self._phase = OTHER
        self._spent = [0.0] * len(PHASES)
        self._last = now()
        self.num_events = 0
        """Calls of `enter` and `leave`: each costs the same, so the probe can tell its own price."""

    def enter(self, phase: int) -> None:
        """From now on time goes to `phase`, until `leave`."""
        now = self._now()
        self._spent[self._phase] += now - self._last
        self._last = now
        self._stack.append(self._phase)
        self._phase = phase
        self.num_events += 1

    def leave(self) -> None:
        """Back to the phase that `enter` interrupted."""
        now = self._now()
        self._spent[self._phase] += now - self._last
        self._last = now
        self._phase = self._stack.pop() if self._stack else OTHER
        self.num_events += 1

    def lap(self) -> list[float]:
        """Seconds by phase since the last `restart` or lap."""
        now = self._now()
        self._spent[self._phase] += now - self._last
        self._last = now
        spent = self._spent
        self._spent = [0.0] * len(PHASES)
        return spent

    def totals(self) -> list[float]:
        """Seconds by phase since the last lap, up to now."""
        now = self._now()
        self._spent[self._phase] += now - self._last
        self._last = now
        return self._spent.copy()

    def phase(self) -> Phase:
        """The phase of this moment; may be asked from any thread."""
        return PHASES[self._phase]

    def give_since(self, moment: float, phase: int) -> float:
        """What has passed since `moment` goes to `phase`, not to the one that is on; answers what time it is."""
        now = self._now()
        moment = max(moment, self._last)
        self._spent[self._phase] += moment - self._last
        self._spent[phase] += now - moment
        self._last = now
        return now

    def pause(self) -> None:
        """Hotlap's own work begins in the middle of a step."""
        now = self._now()
        self._spent[self._phase] += now - self._last
        self._last = now

    def restart(self) -> None:
        """Forget the time since the last lap: it was spent on hotlap's own affairs."""
        self._last = self._now()
