"""What every profiler answers: it looks at one thing while the script trains, beside the clock."""

import math
import time
from abc import ABC
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from hotlap.levers.lever import Patch
from hotlap.probe import modes
from hotlap.probe.guard import Function, Guard
from hotlap.probe.modes import ObserverMode

if TYPE_CHECKING:
    from hotlap.probe.session import Session


class Profiler(ABC):
    """Looks at one thing. A plan names the profilers that it wants; each fills fields of the Run that are its own.

    A passive profiler (`num_steps` 0) looks on while steps are recorded, so it must cost next to nothing there: what it
    does in `step_ended` is outside of the measured time, what it hooks is not. A profiler with steps of its own gets
    them after the recorded ones, alone: its `steps`, then `close`. Those steps are not recorded. What it puts on with
    `put_on`, and what it hooks by its `patch`, is there in these steps only.
    """

    num_steps: ClassVar[int] = 0
    """Steps that it wants for itself, at most; 0: it is passive."""
    patience_s: ClassVar[float] = math.inf
    """Of long steps it wants no more once it was open for so long,"""
    fewest_steps: ClassVar[int] = 1
    """but never fewer than so many."""

    session: "Session"
    """Known from `install` on."""
    _window: Generator[None] | None = None

    def __init__(self) -> None:
        self.patch, self._guard, self._title = Patch(), Guard(), f"the profiler {type(self).__name__}"
        self._left_out: Callable[[], None] | None = None

    def under(self, guard: Guard, off: Callable[[], None]) -> None:
        """Before `install`: what guards its hooks, and what leaves it out once one has failed."""
        self._guard, self._left_out = guard, off

    def guarded(self, work: Function) -> Function:
        """For everything of its own that a hook of the script's calls."""
        return self._guard(work, self._title, off=self._left_out)

    def hook(self, patch: Patch, owner: Any, name: str, instead: Function) -> None:
        """`owner.name` becomes `instead`, guarded, until `patch` is undone; it is given what was there in front of the
        arguments of each call."""
        there = getattr(owner, name)
        hooked = self._guard.around(there, lambda called: partial(instead, called), self._title, off=self._left_out)
        patch.set(owner, name, hooked)

    def hear(self, told: list[Function], work: Function) -> None:
        """`work`, guarded, is among those that are `told`, until its own `patch` is undone."""
        heard = self.guarded(work)
        told.append(heard)
        self.patch.on_undo(lambda: told.remove(heard))

    def put_on(self, mode: ObserverMode) -> None:
        """WINDOW: `mode` sees every operator until it is taken off, or this closes.

        Raises:
            RuntimeError: the script has a mode of its own.
        """
        modes.put_on(mode)
        self.patch.on_undo(partial(modes.take_off, mode))

    def install(self, session: "Session", patch: Patch) -> None:
        """Once, when torch has been imported and before the script goes on."""
        self.session = session
        self.put_hooks(patch)

    def put_hooks(self, patch: Patch) -> None:  # noqa: B027 - most with steps of their own have none beside
        """`patch` takes what is hooked for good; the session has lists to join."""

    def step_ended(self, step: int) -> None:  # noqa: B027 - called only where it is overridden
        """PASSIVE: step number `step` (from 0, the warm-up counts) is over. Called about every ten steps: at the end of
        a block, where hotlap looks up, and after each step of the warm-up."""

    def steps(self) -> Generator[None]:
        """WINDOW: each `yield` is a step that is this profiler's own; what comes behind it is done when the step is
        over. One that has nothing to look at here yields none. It may be left at any of them, so what it has changed
        it puts back in a `finally`, or has its `patch` put back."""
        yield from ()

    def paced(self, at_once: int = 1) -> Iterator[int]:
        """WINDOW: how many steps were made, before each that is to be made, as long as its patience lasts. `at_once`:
        steps for each of these."""
        begun, made = time.perf_counter(), 0
        while made < self.fewest_steps or time.perf_counter() - begun <= self.patience_s:
            yield made
            made += at_once

    def goes_on(self) -> bool:
        """WINDOW: the step under way, if there is one, is over: it wants another one."""
        self._window = self._window or self.steps()
        return any(True for _ in self._window)

    def validated(self) -> tuple[float, float] | None:
        """WINDOW: begin and end, by the clock, of the validation in the step that is over; None without one. What is
        seen in it belongs to no step."""
        step = self.session.clock.last
        if step is None or step.aside is None or not self.session.ledger.is_validation(step.aside):
            return None
        return step.aside.at

    def close(self) -> None:
        """WINDOW: its steps are over, or were cut off where the script or its time ended. PASSIVE: it has failed, and
        is left out."""
        if self._window is not None:
            self._window.close()
        self.patch.undo()

    def forked(self) -> None:
        """WINDOW: in a forked process (a worker), while it is open here: take off what the child has inherited."""
        self.patch.undo()

    def fields(self) -> Mapping[str, Any]:
        """Fields of the Run, by name, when the run is over; those that it could not see are left out."""
        return {}
