"""The watches of a plan: passive ones look on all the time, the others get steps of their own, one after the other."""

import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hotlap.levers.lever import Patch
from hotlap.probe.guard import Guard
from hotlap.probe.watches.watch import Watch

if TYPE_CHECKING:
    from hotlap.probe.session import Session


class Windows:
    """Told of each step; opens and closes the watches. A watch that fails is left out, with a note."""

    def __init__(self, names: tuple[str, ...], guard: Guard | None = None, *, patience_s: float | None = None) -> None:
        """`patience_s`: so long after the first one opened, no other does; None: each gets its steps."""
        self._guard = guard or Guard()
        self._patience_s = math.inf if patience_s is None else patience_s
        self._first_opened: float | None = None
        known: Mapping[str, type[Watch]] = {}
        if names:
            from hotlap.probe.watches.known import ALL

            known = ALL
        self._watches: list[Watch] = [known[name]() for name in names if name in known]
        self._waiting = [watch for watch in self._watches if watch.num_steps]
        self._open: Watch | None = None
        self._made = 0
        self.notes = self._guard.notes
        self.notes += [f"This version of hotlap has no watch {name}." for name in names if name not in known]
        for watch in self._watches:
            watch.under(self._guard, lambda watch=watch: self._drop(watch))  # type: ignore[misc]
        self.each_step: tuple[Callable[[int], None], ...] = tuple(
            watch.guarded(watch.step_ended) for watch in self._watches if type(watch).step_ended is not Watch.step_ended
        )
        """What passive watches want to be called with after each step."""

    def install(self, session: "Session", patch: Patch) -> None:
        """Let each watch hook what it needs."""
        for watch in list(self._watches):
            watch.guarded(watch.install)(session, patch)

    @property
    def idle(self) -> bool:
        """No watch wants steps of its own any more."""
        return self._open is None and not self._waiting

    def next(self) -> bool:
        """A step is over and none is to be recorded: True if the next one belongs to a watch."""
        self._made += 1
        if self._goes_on():
            return True
        self.close()
        if self._first_opened is None:
            self._first_opened = time.perf_counter()
        elif time.perf_counter() - self._first_opened > self._patience_s:
            self._waiting = []
        while self._waiting:
            watch = self._waiting.pop(0)
            self._open, self._made = watch, 0
            if self._goes_on():
                return True
            self.close()
        return False

    def _goes_on(self) -> bool:
        """The open watch wants one more step."""
        watch = self._open
        if watch is None or watch not in self._watches:
            return False
        return bool(watch.guarded(watch.goes_on)()) and self._made < watch.num_steps

    def close(self) -> None:
        """End the open window, if there is one."""
        watch, self._open = self._open, None
        if watch is not None:
            # One that failed is closed as well: it must put back what it changed.
            watch.guarded(watch.close)()

    def cancel(self, why: str) -> None:
        """No window opens any more."""
        if self._waiting:
            self.notes.append(f"No steps were looked at closely: {why}.")
        self._waiting = []

    def forked(self) -> None:
        """In a forked process, which may live long: nobody looks at its operators, or its lines."""
        watch = self._open
        if watch is not None:
            watch.guarded(watch.forked)()

    def fields(self, *, last: bool = True) -> Mapping[str, Any]:
        """What they saw, as fields of the Run. Not `last`: those that are through with the steps that they wanted."""
        if last:
            self.close()
        found: dict[str, Any] = {}
        for watch in list(self._watches):
            through = watch.num_steps and watch is not self._open and watch not in self._waiting
            _merge(found, watch.guarded(watch.fields)() or {} if last or through else {})
        return found

    def _drop(self, watch: Watch) -> None:
        """It is left out; the one that is open is closed when the step is over."""
        for watches in (self._watches, self._waiting):
            if watch in watches:
                watches.remove(watch)
        if not watch.num_steps:
            watch.close()


def _merge(found: dict[str, Any], fields: Mapping[str, Any]) -> None:
    """Sightings and hot lines of several watches are one list; every other field belongs to one watch."""
    for name, value in fields.items():
        if isinstance(value, tuple) and name in found:
            found[name] = (*found[name], *value)
        elif isinstance(value, dict) and name in found:
            found[name] = {**found[name], **value}
        else:
            found[name] = value
