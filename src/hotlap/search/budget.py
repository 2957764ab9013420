"""The seconds of a study: how many there are, how many are spent, and whether there may be more."""

import time
from collections.abc import Callable


class Budget:
    """`longer_s`: what the total may become; None: it stays as it is. `spent_s`: by earlier parts of an interrupted
    study. `now`: a clock in seconds (a fake one in tests)."""

    def __init__(
        self,
        total_s: float,
        *,
        longer_s: float | None = None,
        spent_s: float = 0.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total_s = total_s
        self.later_s = 0.0
        """Part of the total that belongs to a stage to come."""
        self._longer_s = longer_s or total_s
        self._now = now
        self._begun = now() - spent_s

    @property
    def spent_s(self) -> float:
        """Earlier parts of an interrupted study included."""
        return self._now() - self._begun

    @property
    def left_s(self) -> float:
        """For the stage that has its turn."""
        return self.total_s - self.spent_s - self.later_s

    @property
    def extension_s(self) -> float:
        """Seconds that `extend` would add."""
        return max(0.0, self._longer_s - self.total_s)

    def extend(self) -> bool:
        """True if there is more time now than before."""
        more = self.extension_s > 0
        self.total_s += self.extension_s
        return more

    def affords(self, first_s: float, then_s: float = 0.0, *, keep_s: float = 0.0) -> bool:
        """`first_s` can be spent now and leave `keep_s`, and `then_s` as well, if need be of the longer budget."""
        left_s = self.left_s - keep_s
        return left_s >= first_s and left_s + self.extension_s >= first_s + then_s

    def limit_s(self, estimate_s: float) -> float:
        """What a heat may take before it is cut short: three times what it should, and not more than what is left; but
        twice what it should in any case. (What is cut short has cost its time and says nothing: the last heat of a
        confirmation that had seen 2.70x three times was, on an H100.)"""
        return max(20.0, 2 * estimate_s, min(3 * estimate_s + 60.0, self.left_s + 20.0))
