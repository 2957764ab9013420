"""What every watch answers: it looks at one thing while the script trains, beside the clock."""

from abc import ABC
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hotlap.levers.lever import Patch
from hotlap.probe.guard import Function, Guard

if TYPE_CHECKING:
    from hotlap.probe.session import Session


class Watch(ABC):  # noqa: B024 - every part has a sensible default, and none alone makes a watch
    """Looks at one thing. A plan names the watches that it wants; each fills fields of the Run that are its own.

    A passive watch (`num_steps` 0) looks on while steps are recorded, so it must cost next to nothing there: what it
    does in `step_ended` is outside of the measured time, what it hooks is not. A watch with steps of its own gets them
    after the recorded ones, alone: `open`, steps for as long as it `goes_on`, `close`. Those steps are not recorded.
    """

    num_steps: ClassVar[int] = 0
    """Steps that it wants for itself, at most; 0: it is passive."""

    _guard: Guard | None = None
    _left_out: Callable[[], None] | None = None

    def under(self, guard: Guard, off: Callable[[], None]) -> None:
        """Before `install`: what guards its hooks, and what leaves it out once one has failed."""
        self._guard, self._left_out = guard, off

    def guarded(self, work: Function) -> Function:
        """For everything of its own that a hook of the script's calls."""
        return (self._guard or Guard())(work, self.title(), off=self._left_out)

    def around(self, function: Function, make: Callable[[Function], Function]) -> Function:
        """For every wrapper that it puts around a function of the script's."""
        return (self._guard or Guard()).around(function, make, self.title(), off=self._left_out)

    def title(self) -> str:
        """For people."""
        return f"the watch {type(self).__name__}"

    def install(self, session: "Session", patch: Patch) -> None:  # noqa: B027 - not every watch hooks something
        """Once, when torch has been imported and before the script goes on. `session` has lists to join."""

    def step_ended(self, step: int) -> None:  # noqa: B027 - called only where it is overridden
        """PASSIVE: step number `step` (from 0, the warm-up counts) is over. Called about every ten steps: at the end of
        a block, where hotlap looks up, and after each step of the warm-up."""

    def open(self) -> None:  # noqa: B027 - passive watches have no window
        """WINDOW: the next steps are this watch's own."""

    def goes_on(self, num_steps: int) -> bool:
        """WINDOW: so many steps were made in it (0: asked before the first, `open` was called); False closes it."""
        return True

    def close(self, num_steps: int) -> None:  # noqa: B027 - as above
        """WINDOW: they are over; `num_steps` were made (fewer than wanted if the script or its time ended). PASSIVE: it
        has failed, and is left out."""

    def forked(self) -> None:  # noqa: B027 - most put on nothing that a child inherits
        """WINDOW: in a forked process (a worker), while it is open here: take off what the child has inherited."""

    def fields(self) -> Mapping[str, Any]:
        """Fields of the Run, by name, when the run is over; those that it could not see are left out."""
        return {}
