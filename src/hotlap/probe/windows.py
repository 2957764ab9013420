"""The profilers of a plan: passive ones look on all the time, others get steps of their own, one after the other."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hotlap.levers.lever import Patch
from hotlap.probe.guard import Guard
from hotlap.probe.profilers import named
from hotlap.probe.profilers.profiler import Profiler

if TYPE_CHECKING:
    from hotlap.probe.session import Session


class Windows:
    """Told of each step; opens and closes the profilers. A profiler that fails is left out, with a note."""

    def __init__(self, names: tuple[str, ...], guard: Guard | None = None, *, patience_s: float | None = None) -> None:
        """`patience_s`: so long after the first one opened, no other does; None: each gets its steps."""
        self._guard = guard or Guard()
        self._patience_s = math.inf if patience_s is None else patience_s
        self._profilers: list[Profiler] = [named(name)() for name in names]
        self._waiting = [profiler for profiler in self._profilers if profiler.num_steps]
        self._open: Profiler | None = None
        self._steps = self._in_turns()
        self.notes = self._guard.notes
        for profiler in self._profilers:
            profiler.under(self._guard, lambda profiler=profiler: self._drop(profiler))  # type: ignore[misc]
        self.each_step: tuple[Callable[[int], None], ...] = tuple(
            profiler.guarded(profiler.step_ended)
            for profiler in self._profilers
            if type(profiler).step_ended is not Profiler.step_ended
        )
        """What passive profilers want to be called with after each step."""

    def install(self, session: "Session", patch: Patch) -> None:
        """Let each profiler hook what it needs."""
        for profiler in list(self._profilers):
            profiler.guarded(profiler.install)(session, patch)

    @property
    def idle(self) -> bool:
        """No profiler wants steps of its own any more."""
        return self._open is None and not self._waiting

    def next(self) -> bool:
        """A step is over and none is to be recorded: True if the next one belongs to a profiler."""
        return any(True for _ in self._steps)

    def _in_turns(self) -> Iterator[None]:
        """Each `yield` is a step of the profiler that is open."""
        begun = time.perf_counter()
        while self._waiting:
            profiler = self._open = self._waiting.pop(0)
            for made in range(profiler.num_steps + 1):
                # Asked behind its last step as well.
                goes_on = profiler in self._profilers and profiler.guarded(profiler.goes_on)()
                if not goes_on or made == profiler.num_steps:
                    break
                yield
            self.close()
            if self._waiting and time.perf_counter() - begun > self._patience_s:
                self.notes.append(
                    "The time of a first look was over before all was looked at; `hotlap measure` takes longer."
                )
                self._waiting = []

    def close(self) -> None:
        """End the open window, if there is one."""
        profiler, self._open = self._open, None
        if profiler is not None:
            # One that failed is closed as well: it must put back what it changed.
            profiler.guarded(profiler.close)()

    def cancel(self, why: str) -> None:
        """No window opens any more."""
        if self._waiting:
            self.notes.append(f"No steps were looked at closely: {why}.")
        self._waiting = []

    def forked(self) -> None:
        """In a forked process, which may live long: nobody looks at its operators, or its lines."""
        profiler = self._open
        if profiler is not None:
            profiler.guarded(profiler.forked)()

    def fields(self, *, last: bool = True) -> Mapping[str, Any]:
        """What they saw, as fields of the Run. Not `last`: those that are through with the steps that they wanted."""
        if last:
            self.close()
        found: dict[str, Any] = {}
        for profiler in list(self._profilers):
            through = profiler.num_steps and profiler is not self._open and profiler not in self._waiting
            if not (last or through):
                continue
            for name, value in (profiler.guarded(profiler.fields)() or {}).items():
                # Sightings and notes of several profilers are one list; every other field belongs to one profiler.
                found[name] = (*found[name], *value) if name in found else value
        return found

    def _drop(self, profiler: Profiler) -> None:
        """It is left out; the one that is open is closed when the step is over."""
        for profilers in (self._profilers, self._waiting):
            if profiler in profilers:
                profilers.remove(profiler)
        if not profiler.num_steps:
            profiler.close()
