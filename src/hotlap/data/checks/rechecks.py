"""When what is kept is computed again: as training goes on, in a small part of the time."""

from time import perf_counter
from typing import final

# Never for more than one part in so many of the time.
SHARE = 50


@final
class Rechecks:
    """Of one cache."""

    def __init__(self, cost_s: float = 0.0) -> None:
        self.cost_s = cost_s
        """What the last one took."""
        self._ended_s = perf_counter()

    def due(self) -> bool:
        """It is time for the next."""
        return perf_counter() - self._ended_s >= SHARE * self.cost_s

    def took(self, started_s: float) -> float:
        """One that was begun then ends now; seconds that it took."""
        self._ended_s = perf_counter()
        self.cost_s = self._ended_s - started_s
        return self.cost_s
