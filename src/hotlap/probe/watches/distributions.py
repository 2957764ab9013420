"""The checks of torch.distributions: how long they take, and which lines of the user's make them."""

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from hotlap.levers.lever import Patch
from hotlap.probe.guard import Function
from hotlap.probe.tally import Tally, here
from hotlap.probe.watches.watch import Watch
from hotlap.record import SightingKind

if TYPE_CHECKING:
    from hotlap.probe.session import Session


class Distributions(Watch):
    """WINDOW: a few steps in which each check is timed; none where no distribution was made before.

    What the base class does when a distribution is made is little but its checks, and `_validate_sample` nothing else.
    """

    num_steps: ClassVar[int] = 4

    def __init__(self) -> None:
        super().__init__()
        self._used = False
        self._tally = Tally()
        self._wall_s = 0.0

    def install(self, session: "Session", patch: Patch) -> None:
        """Notice the first distribution; those after it are made as without us."""
        from torch.distributions import Distribution

        super().install(session, patch)
        plain = Distribution.__init__

        def noticing(construct: Function) -> Function:
            def first(distribution: Any, *args: Any, **kwargs: Any) -> None:
                if not self._used:
                    self._used = True
                    patch.set(Distribution, "__init__", plain)
                construct(distribution, *args, **kwargs)

            return first

        self.hook(patch, Distribution, "__init__", noticing)

    def open(self) -> None:
        """Time the checks from here on."""
        if not self._used:
            return
        from torch.distributions import Distribution

        for name in ("__init__", "_validate_sample"):
            self.hook(self.patch, Distribution, name, partial(self._timed, name))
        super().open()

    def _timed(self, name: str, check: Function) -> Function:
        def timed(distribution: Any, *args: Any, **kwargs: Any) -> Any:
            begun = time.perf_counter()
            try:
                return check(distribution, *args, **kwargs)
            finally:
                if distribution._validate_args:
                    kind = type(distribution).__name__
                    what = kind if name == "__init__" else f"a value given to {kind}"
                    seconds = time.perf_counter() - begun
                    self._tally.add(SightingKind.DISTRIBUTION_CHECKS, what, here(), cost_s=seconds)

        return timed

    def goes_on(self, num_steps: int) -> bool:
        """For the wanted steps."""
        if num_steps:
            self._tally.step, self._wall_s = num_steps, time.perf_counter() - self._opened
        return self._used

    def fields(self) -> Mapping[str, Any]:
        """`Run.sightings`. `share`: part of the steps in which they were timed, in [0, 1]."""
        step_s = self._wall_s / max(1, self._tally.step)
        return {
            "sightings": tuple(
                replace(seen, detail={"share": (seen.cost_s or 0.0) / step_s}) for seen in self._tally.sightings()
            )
        }
